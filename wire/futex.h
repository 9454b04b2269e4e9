// Sleeping on 32-bit words of shared pages. The word may stand in a read-only mapping.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/shared_word.h"

namespace memlease::wire {

struct FutexWait {
  const HalfWord* word = nullptr;
  std::uint32_t expected = 0;
};

// As many as futex_wait() takes.
inline constexpr std::size_t kMaxFutexWaits = 128;

enum class FutexResult { kWoken, kChanged, kTimedOut, kInterrupted };

// Sleeps until one of the words is woken, unless one of them differs from its expected value
// already. At most kMaxFutexWaits words. kInterrupted: a signal handler ran.
FutexResult futex_wait(std::span<const FutexWait> waits, std::chrono::nanoseconds timeout);

// Wakes so many of those who sleep on the word, in every process; how many there were.
int futex_wake(const HalfWord& word, int most);
// Everybody.
void futex_wake_all(const HalfWord& word);

}  // namespace memlease::wire
