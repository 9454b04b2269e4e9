#include "client/arrays/write_lock.h"

namespace memlease::internal {

bool WriteLock::acquire() {
  std::uint32_t found = word_.load();
  if (is_taken(found) || !word_.compare_exchange_strong(found, found + 1)) return false;
  pass_to_this_thread();
  return true;
}

// Either this sees who waits, or that one, who has counted himself first, that it is free.
void WriteLock::release() {
  taker_.store(0, std::memory_order_relaxed);
  word_.fetch_add(1);
  if (has_waiters()) wire::futex_wake_all(word_);
}

}  // namespace memlease::internal
