// How long a call goes on waiting: until its deadline, an interrupt, the end of what it was called
// by, or the daemon's. Waits go in slices, between which step() looks at all of these; each of them
// ends a slice, too, so that slices may be long. The time runs from the first question on: a call
// that need not wait never looks at the clock. Used by one thread.
//
// A process may be stopped until after the deadline, while what it waits for comes. So the last try
// is one that begins with expired(), and a call that is under way then has one more slice.
#pragma once

#include <memlease/stop.h>
#include <memlease/timeout.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/session/interrupt.h"
#include "client/session/session.h"
#include "client/session/wait_news.h"
#include "wire/futex.h"

namespace memlease::internal {

// Of a wait that has gone on for kInterruptInterval already. A signal that comes between a look and
// the sleep is not seen before the end of that.
inline constexpr std::chrono::seconds kEventSlice{2};

class WaitLimit {
 public:
  // `interrupt_check`: the number of the caller's (Session::add_interrupt_check). `still_open`: not
  // OK once another thread has closed what the caller waits by. `stop`, if any, ends the wait and
  // wakes it. Both outlive this.
  WaitLimit(Session& session, std::uint64_t interrupt_check, Timeout timeout,
            std::chrono::nanoseconds default_timeout, InterruptCheck still_open = kNoInterrupts,
            const Stop* stop = nullptr);

  // The time runs from here on: a call to the daemon, which asks nothing for a while, comes first.
  void start() { static_cast<void>(left()); }
  bool expired();
  // The wait has gone on for longer than anybody would not notice.
  bool is_long();
  // For a slice, or until one of the words is woken, or differs from what it is expected to be.
  // `longest`: for what no word tells, as the end of a stream's work. Beyond 127 words, or 126 with
  // a stop: for a millisecond at most.
  void sleep(std::span<const wire::FutexWait> words,
             std::chrono::nanoseconds longest = std::chrono::nanoseconds::max());
  // Until its deadline; a day if there is none.
  std::chrono::nanoseconds left();
  // OK, kInterrupted, also after `stop`, or what `still_open` says.
  absl::Status check_interrupt();
  // For a call to the daemon that waits meanwhile, every kInterruptInterval: OK, kInterrupted, what
  // `still_open` says, or kTimeout if it has expired by the time before this one already.
  absl::Status check_call();
  // Whether a call that has failed so ends the wait; else what it was to bring may come later: the
  // daemon has not answered, but there is time left, or it had nothing to give just now.
  bool ends_with(const absl::Status& failed);
  // OK to go on; else kInterrupted, what `still_open` says, or why the session cannot be used any
  // more.
  absl::Status step();
  // "10 s", for the text of an error.
  std::string limit_text() const;

 private:
  bool is_told_of_ends();
  std::chrono::nanoseconds slice_of(std::chrono::nanoseconds longest);

  using Clock = std::chrono::steady_clock;
  Session& session_;
  const std::uint64_t interrupt_check_;
  const std::chrono::nanoseconds limit_;
  const InterruptCheck still_open_;
  const Stop* const stop_;
  std::optional<Clock::time_point> start_;
  bool call_is_late_ = false;
  // The count of wait_news that was taken before the last look at what it tells.
  std::uint32_t news_ = wait_news.count();
  bool looked_ = false;
};

// For a step that is tried without waiting.
inline WaitLimit at_once(Session& session, std::uint64_t interrupt_check) {
  constexpr std::chrono::nanoseconds kNone{0};
  return {session, interrupt_check, kNone, kNone};
}

}  // namespace memlease::internal
