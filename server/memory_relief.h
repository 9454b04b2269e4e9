// What the daemon does where the reserve of its control group is half used up: it gives back what
// its heap has free, and where that is not enough cuts the calls of who has most, one user after
// the other, until it has got its memory back. Meanwhile whoever asks for something new can wait.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "server/loop/event_loop.h"
#include "wire/memory_ceiling.h"
#include "wire/mutex.h"

namespace memlease::server {

class MemoryRelief {
 public:
  // Called on the loop's thread.
  struct Means {
    std::function<wire::ReserveLeft()> left;
    std::function<void()> give_back;
    std::function<bool()> cut;  // false: there is nobody to cut
  };

  // The loop outlives this, and does not run any more when this goes.
  MemoryRelief(EventLoop& loop, Means means) : loop_(loop), means_(std::move(means)) {}

  // Whether it is under way, or would begin where so much is left: it does not where it was in vain
  // a moment ago. Thread-safe, also under a mutex.
  bool may_help(wire::ReserveLeft left) const;
  // Begins, if it may help. Thread-safe; under no mutex.
  void look(wire::ReserveLeft left);
  // Blocks while it is under way, but not beyond `until`, nor after end(). Thread-safe.
  void await(std::chrono::steady_clock::time_point until) ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody waits any longer. Thread-safe.
  void end() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void step();

  EventLoop& loop_;
  const Means means_;
  int looks_ = 0;  // since the last cut; on the loop's thread
  std::atomic<std::chrono::steady_clock::time_point> not_before_{};
  std::atomic<bool> under_way_{false};
  wire::Mutex mutex_;
  wire::CondVar ended_;
};

}  // namespace memlease::server
