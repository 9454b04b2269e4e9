// What fork(2) does to a client: the child's copies of everything are dead. Mappings are not
// inherited, so a stray access faults rather than reads bytes that may be another array's by now.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace memlease::internal {

// Something that must know that it is in a forked child now. Registered while it lives.
class ForkObserver {
 public:
  ForkObserver();
  virtual ~ForkObserver();
  ForkObserver(const ForkObserver&) = delete;
  ForkObserver& operator=(const ForkObserver&) = delete;

  // Async-signal-safe calls only.
  virtual void after_fork_in_child() = 0;
};

// A mutex under which observers are made and destroyed: it is taken before a fork, so that the
// child finds what it guards in order. Never destroyed, and to be called once for each mutex.
void hold_over_fork(std::mutex& mutex);

extern std::atomic<std::uint32_t> fork_count;

// Grows in each forked child: a handle compares it with the value at its birth.
inline std::uint32_t fork_generation() { return fork_count.load(std::memory_order_relaxed); }

}  // namespace memlease::internal
