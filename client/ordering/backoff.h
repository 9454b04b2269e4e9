// Pauses of a wait that nothing wakes, as for work on a device: short at first, then longer.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace memlease::internal {

class Backoff {
 public:
  void pause() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(2 * next_, kLongest);
  }

 private:
  static constexpr std::chrono::microseconds kLongest{1000};
  std::chrono::microseconds next_{10};
};

}  // namespace memlease::internal
