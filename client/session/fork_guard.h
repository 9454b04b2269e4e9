// What fork(2) does to a client: the child's copies of everything are dead. Mappings are not
// inherited, so a stray access faults rather than reads bytes that may be another array's by now.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "wire/mutex.h"

namespace memlease::internal {

// Calls a function in each forked child while it lives: async-signal-safe calls only. For a member
// that comes after what the function uses, so that a fork always finds all of that.
class ForkObserver {
 public:
  explicit ForkObserver(std::function<void()> in_child);
  ~ForkObserver();
  ForkObserver(const ForkObserver&) = delete;
  ForkObserver& operator=(const ForkObserver&) = delete;

  void forked() const { in_child_(); }

 private:
  const std::function<void()> in_child_;
};

// A mutex that is taken before a fork, so that the child finds what it guards in order; its place
// among the others is that of its declaration. Never destroyed, and to be called once for each
// mutex. Nothing that waits is done under it.
void hold_over_fork(wire::Mutex& mutex, wire::HeldOverLocks order);

// A thread of the library's that no fork is to meet: `pause` ends it, before the mutexes are taken,
// and `resume` lets it begin again, in the parent alone. To be called once for each.
void pause_over_fork(void (*pause)(), void (*resume)());

// Has this done at each fork. Called as the library is loaded; and by what registers handlers of
// its own then, which are to take their mutexes before these: handlers before a fork run in the
// opposite order of their registration.
int guard_forks();

// For handlers before a fork, ahead of the first mutex that such a thread may want. Those that have
// been paused for this fork stay so.
void pause_threads();

// While it lives no fork begins: for a step of which a child must not have one half, such as a
// descriptor without the observer that closes it. For steps that do not wait; inside of it nothing
// forks, and no observer begins or ends.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

extern std::atomic<std::uint32_t> fork_count;

// Grows in each forked child: a handle compares it with the value at its birth.
inline std::uint32_t fork_generation() { return fork_count.load(std::memory_order_relaxed); }

}  // namespace memlease::internal
