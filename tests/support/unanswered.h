// What a wait for a stopped daemon comes to, in no time.
#pragma once

#include "absl/status/status.h"
#include "client/session/interrupt.h"
#include "wire/error.h"

namespace memlease::testing {

// What the caller's check says, or the end of the wait's own time, which is long.
inline absl::Status unanswered(internal::InterruptCheck interrupt) {
  constexpr int kAsked = 100;
  for (int i = 0; i < kAsked; ++i) {
    if (auto status = interrupt(); !status.ok()) return status;
  }
  return wire::make_error(wire::ErrorCode::kTimeout, "no answer, and nobody has ended the wait");
}

}  // namespace memlease::testing
