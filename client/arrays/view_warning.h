// Whether this process's user is to be told that views of an array keep its writers waiting: once.
// Thread-safe.
#pragma once

#include <atomic>

namespace memlease::internal {

class ViewWarning {
 public:
  // What this process holds has kept a write of its own waiting.
  void note_starved() { starved_.store(true, std::memory_order_relaxed); }
  // True once, for `starved` or what has been noted.
  bool take(bool starved) {
    return (starved || starved_.load(std::memory_order_relaxed)) && !taken_.exchange(true);
  }

 private:
  std::atomic<bool> starved_{false};
  std::atomic<bool> taken_{false};
};

}  // namespace memlease::internal
