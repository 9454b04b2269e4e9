// The mutex of this tree, its lock, and its condition variable: the standard ones, with the
// annotations that the standard library's do not carry. A member that a mutex guards says so by
// ABSL_GUARDED_BY(mutex_), a function to be called under it by
// ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_); Clang refuses whatever touches them otherwise (./dev
// lint). Costs what the standard ones cost; builds with a sanitizer note who holds what
// (wire/held_mutexes.h). What is held over what: docs/locks.md.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "wire/held_mutexes.h"

namespace memlease::wire {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  explicit constexpr Mutex(HeldOverWaits) : over_{true, 0} {}
  explicit constexpr Mutex(HeldOverLocks order) : over_{false, order.place} {}
  constexpr Mutex(HeldOverWaits, HeldOverLocks order) : over_{true, order.place} {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock(Here here = Here::current()) ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.lock();
    note_locked(this, over_, here);
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    note_unlocked(this);
    mutex_.unlock();
  }
  // In a forked child: what this thread has locked before stays locked, and is used by nobody.
  void abandon() ABSL_UNLOCK_FUNCTION() { note_unlocked(this); }

 private:
  friend class CondVar;
  std::mutex mutex_;
  [[no_unique_address]] HeldOver over_;
};

// Holds the mutex while it lives, save between unlock() and lock().
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex, Here here = Here::current()) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_.lock(here);
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (locked_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock(Here here = Here::current()) ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.lock(here);
    locked_ = true;
  }
  void unlock() ABSL_UNLOCK_FUNCTION() {
    locked_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool locked_ = true;
};

// A wait gives up the mutex itself, not its lock, so that it is checked who holds it. A predicate
// that looks at guarded members says so:
//   changed_.wait(mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ready_; });
class CondVar {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  // Not by std::condition_variable::wait, the one function of ours that a libstdc++ older than GCC
  // 12 does not have: systems with that, such as RHEL 9, shall take the wheel.
  void wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    expect_no_mutex_held(kWaits, &mutex);
    pthread_cond_wait(changed_.native_handle(), mutex.mutex_.native_handle());
  }
  template <typename Predicate>
  void wait(Mutex& mutex, Predicate holds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex)
      ABSL_NO_THREAD_SAFETY_ANALYSIS {  // what the predicate says it needs is what is held here
    while (!holds()) wait(mutex);
  }
  template <typename Clock, typename Duration>
  std::cv_status wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    expect_no_mutex_held(kWaits, &mutex);
    Held held(mutex);
    return changed_.wait_until(held.lock, end);
  }
  // What the predicate says at the end.
  template <typename Clock, typename Duration, typename Predicate>
  bool wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> end, Predicate holds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    expect_no_mutex_held(kWaits, &mutex);
    Held held(mutex);
    return changed_.wait_until(held.lock, end, std::move(holds));
  }

 private:
  static constexpr const char* kWaits = "a wait for another thread";

  // The caller's lock, as the standard wants it; still the caller's afterwards, also after a throw.
  struct Held {
    explicit Held(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Held() { lock.release(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

}  // namespace memlease::wire
