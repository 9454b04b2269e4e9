// Coming by the next version of an array to write: the write lock of the process, ownership, a free
// slot.
#pragma once

#include <memlease/array.h>

#include "absl/status/status.h"
#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"
#include "client/slots/slot_writer.h"

namespace memlease::internal {

// What a caller does where there is no free slot: tell its user why, or go on without the write.
enum class IfNoSlot : bool { kExplain, kSkip };

// On success the array is in writing (Writing::enter) and a slot is the caller's until
// OpenArray::end_write. Array::write's errors otherwise. With kSkip nobody asks who holds the
// slots, nor, for a moment, a daemon that has refused one more.
// `number`: of a version that is copied here (SlotWriter::begin): not_now(), with attempt.outcome
// kNumberUsed, where it cannot have that number here.
absl::Status begin_write(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt,
                         IfNoSlot if_none = IfNoSlot::kExplain, std::uint64_t number = 0);
// Copies the current version of a host array to the slot that this process writes, and counts the
// copy; on a device the lease's stream copies, and this only makes the version ready for that.
// kWriteAborted or kInvalidArgument: there is none.
absl::Status copy_current_to(OpenArray& array, std::uint32_t slot, InterruptCheck interrupt);
// That, for a write that has begun. After an error it has ended.
absl::Status copy_current(OpenArray& array, WaitLimit& wait_limit, const WriteAttempt& attempt);

// The number of a version that is written on one of the home's replicas; `number` begins as 0, or
// as SlotWriter::kNextToCopy. On success the home is in writing until OpenArray::end_number, as
// nobody else may give a number meanwhile. Errors as above.
absl::Status begin_number(OpenArray& home, WaitLimit& wait_limit, std::uint64_t& number);

}  // namespace memlease::internal
