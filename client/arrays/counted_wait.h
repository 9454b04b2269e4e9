// A wait of a read or a write, for the daemon's metrics: counted once it is over, and only if it
// slept, from its first sleep on. A call that need not wait never looks at the clock. Used by one
// thread.
#pragma once

#include <chrono>
#include <optional>

#include "client/arrays/open_array.h"
#include "wire/session_counts.h"

namespace memlease::internal {

class CountedWait {
 public:
  using Kind = wire::WaitCounts<wire::Word> wire::SessionCounts::*;

  CountedWait(OpenArray& array, Kind kind) : array_(array), kind_(kind) {}
  // In a child that a callback has forked the pages are not there.
  ~CountedWait() {
    if (!began_ || array_.forked()) return;
    if (wire::SessionCounts* const counts = array_.counts()) {
      wire::count_wait(counts->*kind_, Clock::now() - *began_);
    }
  }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;

  // To be called before each sleep.
  void sleeps() {
    if (!began_) began_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  OpenArray& array_;
  const Kind kind_;
  std::optional<Clock::time_point> began_;
};

}  // namespace memlease::internal
