// Time that stands still until the test moves it. Not thread-safe.
#pragma once

#include <cstdint>

#include "server/core/clock.h"

namespace memlease::testing {

class FakeClock : public server::Clock {
 public:
  std::uint64_t unix_ms() const override { return unix_ms_; }
  std::uint64_t monotonic_ms() const override { return monotonic_ms_; }

  void advance_ms(std::uint64_t ms) {
    unix_ms_ += ms;
    monotonic_ms_ += ms;
  }
  // As when somebody sets the machine's clock: the time for deadlines does not follow.
  void set_unix_ms(std::uint64_t ms) { unix_ms_ = ms; }

 private:
  std::uint64_t unix_ms_ = 1'700'000'000'000;
  std::uint64_t monotonic_ms_ = 5'000;
};

}  // namespace memlease::testing
