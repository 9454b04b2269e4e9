// What fork(2) does to a client: the child's copies of everything are dead. Mappings are not
// inherited, so a stray access faults rather than reads bytes that may be another array's by now.
#pragma once

#include <atomic>
#include <cstdint>

namespace memlease::internal {

// Something that must know of a fork. Registered while it lives; called in this order: before the
// fork in the parent, after it in the parent, after it in the child (async-signal-safe calls only).
class ForkObserver {
 public:
  ForkObserver();
  virtual ~ForkObserver();
  ForkObserver(const ForkObserver&) = delete;
  ForkObserver& operator=(const ForkObserver&) = delete;

  virtual void before_fork() {}
  virtual void after_fork_in_parent() {}
  virtual void after_fork_in_child() = 0;
};

extern std::atomic<std::uint32_t> fork_count;

// Grows in each forked child: a handle compares it with the value at its birth.
inline std::uint32_t fork_generation() { return fork_count.load(std::memory_order_relaxed); }

}  // namespace memlease::internal
