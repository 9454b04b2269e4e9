// Coming by the next version of an array to write: the process's turn, the right, a free slot.
#pragma once

#include <memlease/array.h>

#include "absl/status/status.h"
#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"
#include "client/slots/slot_writer.h"

namespace memlease::internal {

// On success the array is in writing (OpenArray::enter_writing) and a slot is the caller's until
// OpenArray::end_write. Array::write's errors otherwise.
absl::Status begin_write(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt);
// As begin_write, and the slot starts with the current version's bytes.
absl::Status begin_update(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt);

}  // namespace memlease::internal
