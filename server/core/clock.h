// Port to time, so that tests own it. Implemented by SystemClock (server/system.h), in tests by
// FakeClock (tests/support/fake_clock.h); read by the core, under the daemon's lock. An
// implementation need not be thread-safe, nor may it block. It cannot fail.
#pragma once

#include <cstdint>

namespace memlease::server {

// When something was.
struct Moment {
  std::uint64_t unix_ms = 0;       // to be shown
  std::uint64_t monotonic_ms = 0;  // to be counted from
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::uint64_t unix_ms() const = 0;       // for people; may jump
  virtual std::uint64_t monotonic_ms() const = 0;  // for deadlines; never goes back

  Moment now() const { return {unix_ms(), monotonic_ms()}; }
};

}  // namespace memlease::server
