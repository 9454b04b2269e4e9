// Whoever has a word of a shared page mapped can take sleepers off it, to a word of his own:
// FUTEX_REQUEUE asks for no right to write. They are not woken then, and find the word changed at
// the end of their slice. So for a minute after that slices are short, and shorter with each such
// end. Of the process. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <span>

#include "wire/futex.h"

namespace memlease::internal {

class LostWakes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirst{200};
  static constexpr std::chrono::milliseconds kShortest{20};
  static constexpr std::chrono::seconds kMemory{60};

  // How long to sleep, where nothing speaks against `longest`.
  std::chrono::nanoseconds slice(std::chrono::nanoseconds longest, Clock::time_point now) const;
  // After a sleep on these words that was to be so long.
  void look(wire::FutexResult result, std::span<const wire::FutexWait> words,
            std::chrono::nanoseconds slept, Clock::time_point now);

 private:
  std::atomic<Clock::time_point> until_{Clock::time_point::min()};
  std::atomic<std::chrono::nanoseconds> longest_{kFirst};
};

inline constinit LostWakes lost_wakes;

}  // namespace memlease::internal
