// Coming by the next version of an array to write: the write lock of the process, ownership, a free
// slot.
#pragma once

#include <memlease/array.h>

#include <cstdint>

#include "absl/status/status.h"
#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"
#include "client/slots/slot_writer.h"

namespace memlease::internal {

// What a caller does where there is no free slot: tell its user why; or go on without the write; or
// do something else before it waits for one.
enum class IfNoSlot : std::uint8_t { kExplain, kSkip, kReturn };

// On success the array is in writing (Writing::enter) and a slot is the caller's until
// OpenArray::end_write. Array::write's errors otherwise. With kSkip nobody asks who holds the
// slots, nor, for a moment, a daemon that has refused one more. With kReturn the wait is for
// ownership alone, and kNoFreeSlot has no text.
// `number`: of a version that is copied here (SlotWriter::begin): not_now(), with attempt.outcome
// kNumberUsed, where it cannot have that number here.
absl::Status begin_write(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt,
                         IfNoSlot if_none = IfNoSlot::kExplain, std::uint64_t number = 0);
// Waits as begin_write() does, and begins nothing. There may be no slot any more once it returns.
absl::Status wait_for_free_slot(OpenArray& array, WaitLimit& wait_limit, IfNoSlot if_none);
// Copies the current version of a host array to the slot that this process writes, and counts the
// copy; on a device the lease's stream copies, and this only makes the version ready for that.
// kWriteAborted or kInvalidArgument: there is none.
absl::Status copy_current_to(OpenArray& array, std::uint32_t slot, InterruptCheck interrupt);
// That, for a write that has begun. After an error it has ended.
absl::Status copy_current(OpenArray& array, WaitLimit& wait_limit, const WriteAttempt& attempt);

// Ownership that is kept for a copy of a version from another place: whoever only tries to begin at
// once finds no moment for that where others write without a pause. Of one thread.
class HeldOwnership {
 public:
  explicit HeldOwnership(OpenArray& array) : array_(array) {}
  ~HeldOwnership() { release(); }
  HeldOwnership(const HeldOwnership&) = delete;
  HeldOwnership& operator=(const HeldOwnership&) = delete;

  // Waits as begin_write() does for ownership. Nobody else in this process begins a write until
  // release(), and no other process for a moment: for 10 ms, if it waits by then.
  absl::Status acquire(WaitLimit& wait_limit);
  // As begin_write(), with what is held, if anything is, which ends with this call or the write.
  absl::Status begin(WaitLimit& wait_limit, WriteAttempt& attempt, IfNoSlot if_none,
                     std::uint64_t number);
  void release();

 private:
  OpenArray& array_;
  bool held_ = false;
};

// The number of a version that is written on one of the home's replicas; `number` begins as 0, or
// as SlotWriter::kNextToCopy. On success the home is in writing until OpenArray::end_number, as
// nobody else may give a number meanwhile. Errors as above.
absl::Status begin_number(OpenArray& home, WaitLimit& wait_limit, std::uint64_t& number);

}  // namespace memlease::internal
