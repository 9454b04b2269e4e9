// From the inside, where errors are values, to the public face, where they are exceptions. For
// client/api/ alone: nothing below it throws, or lets an exception through.
#pragma once

#include <memlease/error.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memlease::internal {

// Throws the class of the status's code (memlease/error.h) with its message and hint: Internal
// where it has no code of ours. If the status is that of an interrupted wait, throws the very
// exception of the caller's interrupt check. The status is not OK.
[[noreturn]] void throw_error(const absl::Status& status);

// Returns if the status is OK; else throw_error().
inline void check(const absl::Status& status) {
  if (!status.ok()) throw_error(status);
}

// The value; if there is none, throw_error() with the status.
template <typename T>
T value_or_throw(absl::StatusOr<T>&& result) {
  if (!result.ok()) throw_error(result.status());
  return std::move(*result);
}

}  // namespace memlease::internal
