#include "client/session/fork_guard.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace memlease::internal {

std::atomic<std::uint32_t> fork_count{0};

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkObserver*> observers;
  std::vector<std::mutex*> to_hold;  // in the order in which they are taken, before `mutex`
  std::vector<std::mutex*> held;     // by the fork that goes on
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

// Never destroyed: a fork may come after static destructors have begun.
Registry& registry() {
  static Registry* const the_registry = [] {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return new Registry;
  }();
  return *the_registry;
}

// All locks stay taken over the fork, so that the child finds what they guard in order.
void before_fork() {
  std::vector<std::mutex*> to_hold;
  {
    const std::lock_guard lock(registry().mutex);
    to_hold = registry().to_hold;
  }
  for (std::mutex* mutex : to_hold) mutex->lock();
  registry().mutex.lock();
  registry().held = to_hold;
}

void unlock_all() {
  const std::vector<std::mutex*> held = std::move(registry().held);
  registry().mutex.unlock();
  for (std::mutex* mutex : held) mutex->unlock();
}

void after_fork_in_parent() { unlock_all(); }

void after_fork_in_child() {
  fork_count.fetch_add(1, std::memory_order_relaxed);
  for (ForkObserver* observer : registry().observers) observer->after_fork_in_child();
  registry().observers.clear();
  unlock_all();
}

}  // namespace

void hold_over_fork(std::mutex& mutex) {
  const std::lock_guard lock(registry().mutex);
  registry().to_hold.push_back(&mutex);
}

ForkObserver::ForkObserver() {
  const std::lock_guard lock(registry().mutex);
  registry().observers.push_back(this);
}

ForkObserver::~ForkObserver() {
  const std::lock_guard lock(registry().mutex);
  auto& observers = registry().observers;
  observers.erase(std::remove(observers.begin(), observers.end(), this), observers.end());
}

}  // namespace memlease::internal
