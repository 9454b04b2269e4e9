// Pauses of a wait that nothing wakes, as for work on a device: short at first, then longer.
// Used by one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace memlease::internal {

class Backoff {
 public:
  using Pause = std::chrono::microseconds;

  explicit Backoff(Pause shortest = Pause(10), Pause longest = Pause(1000))
      : next_(shortest), longest_(longest) {}
  Pause next() { return std::exchange(next_, std::min(2 * next_, longest_)); }
  void pause() { std::this_thread::sleep_for(next()); }

 private:
  Pause next_;
  const Pause longest_;
};

}  // namespace memlease::internal
