#include "client/session/lost_wakes.h"

#include <algorithm>

namespace memlease::internal {

std::chrono::nanoseconds LostWakes::slice(std::chrono::nanoseconds longest,
                                          Clock::time_point now) const {
  return now < until_.load() ? std::min(longest, longest_.load()) : longest;
}

// A word that changes between the end of the slice and this look is taken for one, too: that costs
// a minute of some more looks.
void LostWakes::look(wire::FutexResult result, std::span<const wire::FutexWait> words,
                     Clock::time_point now) {
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
