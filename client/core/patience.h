// How long a call goes on waiting: until its deadline, an interrupt, or the daemon's end. Waits go
// in slices, between which step() looks at all three. The time runs from the first question on: a
// call that need not wait never looks at the clock. Used by one thread.
#pragma once

#include <memlease/array.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/core/session.h"

namespace memlease::internal {

class Patience {
 public:
  static constexpr std::chrono::milliseconds kSlice{100};

  Patience(Session& session, Timeout timeout, std::chrono::nanoseconds default_timeout);

  bool expired();
  // How long to sleep at a time; 0 once expired.
  std::chrono::nanoseconds slice();
  // OK to go on. An exception of the caller's interrupt check is kept for rethrow(), so that shared
  // pages can be put in order first.
  absl::Status step();
  // Throws the kept exception, if any.
  void rethrow() const;
  // "10 s", for the text of an error.
  std::string limit_text() const;

 private:
  using Clock = std::chrono::steady_clock;
  Session& session_;
  const std::chrono::nanoseconds limit_;
  std::optional<Clock::time_point> start_;
  std::exception_ptr exception_;
};

}  // namespace memlease::internal
