// Coming by the next version of an array to write: the process's turn, the right, a free slot.
#pragma once

#include <memlease/array.h>

#include "absl/status/status.h"
#include "client/core/array_state.h"
#include "client/core/patience.h"
#include "client/core/slot_writer.h"

namespace memlease::internal {

// On success the array is in writing (ArrayState::enter_writing) and a slot is the caller's until
// ArrayState::end_write. Array::write's errors otherwise.
absl::Status begin_write(ArrayState& array, Patience& patience, WriteAttempt& attempt);
// As begin_write, and the slot starts with the current version's bytes.
absl::Status begin_update(ArrayState& array, Patience& patience, WriteAttempt& attempt);

}  // namespace memlease::internal
