// One write at a time in this process: a lock that another thread than the one that took it may let
// go, and that is waited for as other things are (WaitLimit). A write lease has it from its begin
// to its end. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "wire/futex.h"

namespace memlease::internal {

class WriteLock {
 public:
  // False if somebody else has it.
  bool acquire();
  // Of a thread that waits, and looks before each try. While it lives a release wakes it.
  class Waiter {
   public:
    explicit Waiter(WriteLock& lock) : lock_(lock) { lock_.waiters_.fetch_add(1); }
    ~Waiter() { lock_.waiters_.fetch_sub(1); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    WriteLock& lock_;
  };
  // To sleep on: until somebody takes it or lets it go after this look.
  wire::FutexWait look() const { return {&word_, word_.load()}; }
  // Whoever comes now lets these go first: a thread that writes without a pause would be faster
  // than any that has to be woken.
  bool has_waiters() const { return waiters_.load() != 0; }
  void release();
  bool taken() const { return is_taken(word_.load()); }
  // For whoever has it: it has gone to this thread, as a lease may.
  void pass_to_this_thread() { taker_.store(this_thread(), std::memory_order_relaxed); }
  // By this thread, or passed to it, and nobody has released it since.
  bool taken_by_this_thread() const {
    return taker_.load(std::memory_order_relaxed) == this_thread();
  }

 private:
  // Unlike a std::thread::id no later thread gets it again.
  static std::uint64_t this_thread() {
    static std::atomic<std::uint64_t> last{0};
    thread_local const std::uint64_t number = ++last;
    return number;
  }
  static bool is_taken(std::uint32_t word) { return word % 2 != 0; }
  wire::HalfWord word_{0};  // counts how often it was taken and let go
  std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::uint64_t> taker_{0};  // 0: nobody
};

}  // namespace memlease::internal
