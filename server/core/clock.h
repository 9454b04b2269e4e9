// Port to time, so that tests own it. Implemented by SystemClock (server/daemon.cc) and FakeClock.
#pragma once

#include <cstdint>

namespace memlease::server {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::uint64_t unix_ms() const = 0;       // for people
  virtual std::uint64_t monotonic_ms() const = 0;  // for deadlines
};

}  // namespace memlease::server
