#include "client/arrays/write_lock.h"

namespace memlease::internal {

bool WriteLock::acquire() {
  std::uint32_t found = kFree;
  if (!word_.compare_exchange_strong(found, kTaken)) return false;
  pass_to_this_thread();
  return true;
}

// Either this sees who waits, or that one, who has counted himself first, that it is free.
void WriteLock::release() {
  taker_.store(0, std::memory_order_relaxed);
  word_.store(kFree);
  if (has_waiters()) wire::futex_wake_all(word_);
}

}  // namespace memlease::internal
