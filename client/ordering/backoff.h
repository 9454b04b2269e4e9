// Pauses of waits that nothing wakes. Each is used by one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace memlease::internal {

using Pause = std::chrono::microseconds;

// Between questions that cost somebody else something: short at first, then twice as long each.
class Backoff {
 public:
  Backoff(Pause shortest, Pause longest) : next_(shortest), longest_(longest) {}
  Pause next() { return std::exchange(next_, std::min(2 * next_, longest_)); }

 private:
  Pause next_;
  const Pause longest_;
};

// Between looks at a GPU's work: an eighth of what the wait has lasted, by which it lasts longer
// than the work at most.
class LookPauses {
 public:
  void pause() {
    const auto lasted = std::chrono::duration_cast<Pause>(Clock::now() - begin_);
    std::this_thread::sleep_for(std::clamp(lasted / 8, Pause(10), Pause(1000)));
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace memlease::internal
