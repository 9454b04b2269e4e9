#include "client/arrays/write_lock.h"

namespace memlease::internal {

bool WriteLock::acquire(std::chrono::nanoseconds slice) {
  if (!take(slice)) return false;
  pass_to_this_thread();
  return true;
}

bool WriteLock::take(std::chrono::nanoseconds slice) {
  std::uint32_t found = kFree;
  if (word_.compare_exchange_strong(found, kTaken)) return true;
  if (slice == std::chrono::nanoseconds::zero()) return false;
  // Whoever sleeps says so, and the release wakes all of them.
  if (found = word_.exchange(kAwaited); found != kFree) {
    const wire::FutexWait wait{&word_, kAwaited};
    wire::futex_wait({&wait, 1}, slice);
    found = word_.exchange(kAwaited);
  }
  return found == kFree;
}

void WriteLock::release() {
  taker_.store(0, std::memory_order_relaxed);
  if (word_.exchange(kFree) == kAwaited) wire::futex_wake_all(word_);
}

}  // namespace memlease::internal
