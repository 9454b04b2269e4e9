// From the inside, where errors are values, to the public face, where they are exceptions.
#pragma once

#include <memlease/error.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memlease::internal {

// Throws the class of the status's code, or the caller's own exception that interrupted a wait.
[[noreturn]] void throw_error(const absl::Status& status);

inline void check(const absl::Status& status) {
  if (!status.ok()) throw_error(status);
}

template <typename T>
T value_or_throw(absl::StatusOr<T>&& result) {
  if (!result.ok()) throw_error(result.status());
  return std::move(*result);
}

}  // namespace memlease::internal
