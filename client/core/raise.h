// From the inside, where errors are values, to the public face, where they are exceptions.
#pragma once

#include <memlease/error.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memlease::internal {

// Throws Error, or the caller's own exception that interrupted a wait.
[[noreturn]] void raise(const absl::Status& status);

inline void check(const absl::Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T value_or_raise(absl::StatusOr<T>&& result) {
  if (!result.ok()) raise(result.status());
  return std::move(*result);
}

}  // namespace memlease::internal
