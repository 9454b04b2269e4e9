// An exception of the caller's interrupt check (ConnectOptions::check_interrupt) on its way out:
// inside it is a status like any other, so that leases end and shared pages are put in order; at
// the public face it becomes the same exception again.
#pragma once

#include <chrono>
#include <exception>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace memlease::internal {

// Asked by whatever waits, every kInterruptInterval. If it is not OK, the wait ends with it.
using InterruptCheck = absl::FunctionRef<absl::Status()>;
inline constexpr std::chrono::milliseconds kInterruptInterval{100};
inline constexpr auto kNoInterrupts = [] { return absl::OkStatus(); };

// Calls a user's check, which may be null: OK, or kInterrupted with what it has thrown.
absl::Status call_check(const std::function<void()>& check);
// kInterrupted, with the exception.
absl::Status interrupted(std::exception_ptr exception);
// The exception in such a status; null in any other one.
std::exception_ptr interrupt_of(const absl::Status& status);

}  // namespace memlease::internal
