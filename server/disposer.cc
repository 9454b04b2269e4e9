#include "server/disposer.h"

#include <exception>
#include <thread>
#include <utility>

namespace memlease::server {

Disposer::~Disposer() {
  const wire::MutexLock lock(mutex_);
  while (!waiting_.empty()) done_.wait(mutex_);
}

void Disposer::dispose(uid_t payer, std::shared_ptr<const void> unused) {
  Garbage left;  // destroyed without the lock
  const wire::MutexLock lock(mutex_);
  const bool has_thread = waiting_.contains(payer);
  try {
    waiting_[payer].push_back(std::move(unused));
    if (!has_thread) std::thread([this, payer] { run(payer); }).detach();
  } catch (const std::exception&) {  // no thread, or no memory for one
    if (has_thread) return;
    left = std::move(waiting_[payer]);
    waiting_.erase(payer);
  }
}

bool Disposer::await(uid_t payer, std::chrono::milliseconds longest) {
  const auto until = std::chrono::steady_clock::now() + longest;
  const wire::MutexLock lock(mutex_);
  while (waiting_.contains(payer)) {
    if (done_.wait_until(mutex_, until) == std::cv_status::timeout) break;
  }
  return !waiting_.contains(payer);
}

void Disposer::run(uid_t payer) {
  wire::MutexLock lock(mutex_);
  for (;;) {
    const auto of_payer = waiting_.find(payer);
    Garbage garbage = std::exchange(of_payer->second, {});
    if (garbage.empty()) {
      waiting_.erase(of_payer);
      done_.notify_all();
      return;
    }
    lock.unlock();
    garbage.clear();
    lock.lock();
  }
}

}  // namespace memlease::server
