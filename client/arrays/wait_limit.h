// How long a call goes on waiting: until its deadline, an interrupt, the end of what it was called
// by, or the daemon's. Waits go in slices, between which step() looks at all of these. The time
// runs from the first question on: a call that need not wait never looks at the clock. Used by one
// thread.
#pragma once

#include <memlease/array.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/session/interrupt.h"
#include "client/session/session.h"

namespace memlease::internal {

class WaitLimit {
 public:
  // `interrupt_check`: the number of the caller's (Session::add_interrupt_check). `still_open`: not
  // OK once another thread has closed what the caller waits by; it outlives this.
  WaitLimit(Session& session, std::uint64_t interrupt_check, Timeout timeout,
            std::chrono::nanoseconds default_timeout, InterruptCheck still_open = kNoInterrupts);

  bool expired();
  // The wait has gone on for longer than anybody would not notice.
  bool is_long();
  // How long to sleep at a time; 0 once expired.
  std::chrono::nanoseconds slice();
  // Until its deadline; a day if there is none.
  std::chrono::nanoseconds left();
  // OK, kInterrupted, or what `still_open` says.
  absl::Status check_interrupt();
  // For a call to the daemon that waits meanwhile: OK, kInterrupted, what `still_open` says, or
  // kTimeout once expired.
  absl::Status check_call();
  // OK to go on; else kInterrupted, what `still_open` says, or why the session cannot be used any
  // more.
  absl::Status step();
  // "10 s", for the text of an error.
  std::string limit_text() const;

 private:
  using Clock = std::chrono::steady_clock;
  Session& session_;
  const std::uint64_t interrupt_check_;
  const std::chrono::nanoseconds limit_;
  const InterruptCheck still_open_;
  std::optional<Clock::time_point> start_;
};

}  // namespace memlease::internal
