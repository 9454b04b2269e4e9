#include "client/session/lost_wakes.h"

#include <algorithm>

namespace memlease::internal {

std::chrono::nanoseconds LostWakes::slice(std::chrono::nanoseconds longest,
                                          Clock::time_point now) const {
  return now < until_.load() ? std::min(longest, longest_.load()) : longest;
}

// A word that has changed and whose sleepers are just being woken is taken for one, too: that costs
// a minute of some more looks. The end of a short slice meets that where many processes come at
// once, and nobody minds the lost wake of one.
void LostWakes::look(wire::FutexResult result, std::span<const wire::FutexWait> words,
                     std::chrono::nanoseconds slept, Clock::time_point now) {
  if (slept < kFirst && now >= until_.load()) return;
  const auto has_changed = [](const wire::FutexWait& wait) {
    return wait.word->load() != wait.expected;
  };
  if (result != wire::FutexResult::kTimedOut || std::ranges::none_of(words, has_changed)) return;
  longest_ = now < until_.load()
                 ? std::max<std::chrono::nanoseconds>(longest_.load() / 10, kShortest)
                 : kFirst;
  until_ = now + kMemory;
}

}  // namespace memlease::internal
