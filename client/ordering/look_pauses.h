// Pauses between looks at a GPU's work, which wakes nobody on the host.
#pragma once

#include <chrono>
#include <cstdint>

namespace memlease::internal {

// None at first, as small copies are over sooner than a thread sleeps and wakes; then a 32nd of
// what the wait has lasted, up to a millisecond, so that it lasts little longer than the work. Used
// by one thread, whose timers it makes finer until it goes: by default Linux adds 50 us to each
// sleep.
class LookPauses {
 public:
  LookPauses() = default;
  ~LookPauses();
  LookPauses(const LookPauses&) = delete;
  LookPauses& operator=(const LookPauses&) = delete;

  void pause();

 private:
  using Clock = std::chrono::steady_clock;

  void make_timers_fine();

  const Clock::time_point begin_ = Clock::now();
  bool sleeps_ = false;
  std::int64_t slack_ns_ = 0;  // the thread's own, if it has been changed
};

}  // namespace memlease::internal
