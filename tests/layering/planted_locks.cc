// Breaks the law of locks in each line that ends with "found": ./dev lint looks whether Clang
// sees these lines, and no other. Not a part of any program.
#include "wire/mutex.h"

namespace memlease::testing {

class Counter {
 public:
  void add() {
    const wire::MutexLock lock(mutex_);
    ++count_;
    add_locked();
    changed_.notify_all();
  }
  void add_without_the_lock() {
    ++count_;      // found
    add_locked();  // found
  }
  void add_after_unlock() {
    wire::MutexLock lock(mutex_);
    ++count_;
    lock.unlock();
    ++count_;  // found
    lock.lock();
    ++count_;
  }
  void take_twice() {
    const wire::MutexLock lock(mutex_);
    add_from_outside();  // found
  }
  void wait_without_the_lock() {
    changed_.wait(mutex_);  // found
  }
  void wait() {
    const wire::MutexLock lock(mutex_);
    while (count_ == 0) changed_.wait(mutex_);
    changed_.wait(mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ != 1; });
    changed_.wait(mutex_, [this] { return count_ != 2; });  // found
  }
  void take_in_the_wrong_order() {
    const wire::MutexLock lock(mutex_);
    const wire::MutexLock outer(outer_);  // found
  }

 private:
  void add_locked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ++count_; }
  void add_from_outside() ABSL_LOCKS_EXCLUDED(mutex_) { add(); }

  wire::Mutex outer_ ABSL_ACQUIRED_BEFORE(mutex_);
  wire::Mutex mutex_;
  wire::CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace memlease::testing
