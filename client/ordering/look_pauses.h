// Pauses between looks at a GPU's work, which wakes nobody on the host.
#pragma once

#include <chrono>
#include <optional>

#include "client/session/fine_timers.h"

namespace memlease::internal {

// None at first, as small copies are over sooner than a thread sleeps and wakes; then a 32nd of
// what the wait has lasted, up to a millisecond, so that it lasts little longer than the work. Used
// by one thread.
class LookPauses {
 public:
  void pause();

 private:
  using Clock = std::chrono::steady_clock;

  const Clock::time_point begin_ = Clock::now();
  std::optional<FineTimers> fine_;  // from the first sleep on
};

}  // namespace memlease::internal
