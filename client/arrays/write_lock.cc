#include "client/arrays/write_lock.h"

namespace memlease::internal {

bool WriteLock::acquire() {
  std::uint32_t found = kFree;
  if (!word_.compare_exchange_strong(found, kTaken)) return false;
  pass_to_this_thread();
  return true;
}

// Others may sleep: so whoever gets it that way wakes them all when he releases it.
bool WriteLock::acquire_or_await() {
  if (word_.exchange(kAwaited) != kFree) return false;
  pass_to_this_thread();
  return true;
}

void WriteLock::release() {
  taker_.store(0, std::memory_order_relaxed);
  if (word_.exchange(kFree) == kAwaited) wire::futex_wake_all(word_);
}

}  // namespace memlease::internal
