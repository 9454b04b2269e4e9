#include "client/core/fork_guard.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace memlease::internal {

std::atomic<std::uint32_t> fork_count{0};

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkObserver*> observers;
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

// The registry stays locked over the fork, so that the child finds it in order.
void before_fork() {
  registry().mutex.lock();
  for (ForkObserver* observer : registry().observers) observer->before_fork();
}

void after_fork_in_parent() {
  for (ForkObserver* observer : registry().observers) observer->after_fork_in_parent();
  registry().mutex.unlock();
}

void after_fork_in_child() {
  fork_count.fetch_add(1, std::memory_order_relaxed);
  for (ForkObserver* observer : registry().observers) observer->after_fork_in_child();
  registry().observers.clear();
  registry().mutex.unlock();
}

}  // namespace

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
