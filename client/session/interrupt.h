// An exception of the caller's interrupt check (ConnectOptions::check_interrupt) on its way out:
// inside it is a status like any other, so that leases end and shared pages are put in order; at
// the public face it becomes the same exception again.
#pragma once

#include <exception>

#include "absl/status/status.h"

namespace memlease::internal {

// kInterrupted, with the exception.
absl::Status interrupted(std::exception_ptr exception);
// The exception in such a status; null in any other one.
std::exception_ptr interrupt_of(const absl::Status& status);

}  // namespace memlease::internal
