// Coming by a version of an array: try, spin, sleep, try again.
#pragma once

#include <memlease/array.h>

#include "absl/status/statusor.h"
#include "client/core/array_state.h"
#include "client/core/patience.h"
#include "client/core/slot_reader.h"

namespace memlease::internal {

// On success the slot is held, and Array::read's errors otherwise.
absl::StatusOr<ReadAttempt> begin_read(ArrayState& array, const ReadOptions& options,
                                       Patience& patience);

}  // namespace memlease::internal
