#include "client/session/fork_guard.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace memlease::internal {

std::atomic<std::uint32_t> fork_count{0};

namespace {

struct PausedThread {
  void (*pause)();
  void (*resume)();
};

struct HeldMutex {
  wire::Mutex* mutex = nullptr;
  unsigned char place = 0;
};

struct Registry {
  wire::Mutex mutex{wire::HeldOverLocks(6)};  // taken last, after those of to_hold
  std::vector<const ForkObserver*> observers ABSL_GUARDED_BY(mutex);
  // In the order in which they are taken.
  std::vector<HeldMutex> to_hold ABSL_GUARDED_BY(mutex);
  std::vector<HeldMutex> held ABSL_GUARDED_BY(mutex);        // by the fork that goes on
  std::vector<PausedThread> threads ABSL_GUARDED_BY(mutex);  // has only more
};

// Never destroyed: a fork may come after static destructors have begun.
Registry& registry() {
  static Registry* const the_registry = new Registry;
  return *the_registry;
}

// Of the fork that goes on in this thread: how many of these it has paused, from the first on, and
// whether it has the mutexes.
thread_local std::size_t threads_paused = 0;
thread_local bool mutexes_taken = false;

std::vector<PausedThread> threads() {
  Registry& all = registry();
  const wire::MutexLock lock(all.mutex);
  return all.threads;
}

std::vector<HeldMutex> to_hold() {
  Registry& all = registry();
  const wire::MutexLock lock(all.mutex);
  return all.to_hold;
}

// All locks stay taken over the fork, so that the child finds what they guard in order. Not
// checked: one function takes them, another gives them back.
void before_fork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  pause_threads();
  std::vector<HeldMutex> taken = to_hold();
  for (const HeldMutex& it : taken) it.mutex->lock();
  registry().mutex.lock();
  registry().held = std::move(taken);
  mutexes_taken = true;
}

void unlock_all() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutexes_taken = false;
  const std::vector<HeldMutex> held = std::move(registry().held);
  registry().mutex.unlock();
  for (const HeldMutex& it : held) it.mutex->unlock();
}

void after_fork_in_parent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<PausedThread> resumed = registry().threads;
  resumed.resize(std::exchange(threads_paused, 0));
  unlock_all();
  for (const PausedThread& thread : resumed) thread.resume();
}

void after_fork_in_child() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  fork_count.fetch_add(1, std::memory_order_relaxed);
  threads_paused = 0;
  for (const ForkObserver* observer : registry().observers) observer->forked();
  registry().observers.clear();
  unlock_all();
}

// When the library is loaded, so that each fork counts.
[[maybe_unused]] const int kGuarded = guard_forks();

}  // namespace

int guard_forks() {
  static const int error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  return error;
}

void hold_over_fork(wire::Mutex& mutex, wire::HeldOverLocks order) {
  Registry& all = registry();
  const wire::MutexLock lock(all.mutex);
  const auto next = std::ranges::upper_bound(all.to_hold, order.place, {}, &HeldMutex::place);
  all.to_hold.insert(next, {&mutex, order.place});
}

NoFork::NoFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { registry().mutex.lock(); }

NoFork::~NoFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { registry().mutex.unlock(); }

void pause_threads() {
  if (mutexes_taken) return;
  const std::vector<PausedThread> all = threads();
  for (; threads_paused < all.size(); ++threads_paused) all[threads_paused].pause();
}

void pause_over_fork(void (*pause)(), void (*resume)()) {
  Registry& all = registry();
  const wire::MutexLock lock(all.mutex);
  all.threads.push_back({pause, resume});
}

ForkObserver::ForkObserver(std::function<void()> in_child) : in_child_(std::move(in_child)) {
  Registry& all = registry();
  const wire::MutexLock lock(all.mutex);
  all.observers.push_back(this);
}

ForkObserver::~ForkObserver() {
  Registry& all = registry();
  const wire::MutexLock lock(all.mutex);
  std::erase(all.observers, this);
}

}  // namespace memlease::internal
