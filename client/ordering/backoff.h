// Pauses between questions that cost somebody else something. Each is used by one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace memlease::internal {

using Pause = std::chrono::microseconds;

// Short at first, then twice as long each.
class Backoff {
 public:
  Backoff(Pause shortest, Pause longest) : next_(shortest), longest_(longest) {}
  Pause next() { return std::exchange(next_, std::min(2 * next_, longest_)); }

 private:
  Pause next_;
  const Pause longest_;
};

}  // namespace memlease::internal
