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
absl::Status await_slot(OpenArray& array, WaitLimit& wait_limit, IfNoSlot if_none);
// Copies the current version of a host array to the slot that this process writes, and counts the
// copy; on a device the lease's stream copies, and this only makes the version ready for that.
// kWriteAborted or kInvalidArgument: there is none.
absl::Status copy_current_to(OpenArray& array, std::uint32_t slot, InterruptCheck interrupt);
// That, for a write that has begun. After an error it has ended.
absl::Status copy_current(OpenArray& array, WaitLimit& wait_limit, const WriteAttempt& attempt);

// A turn among those who write an array, for a copy of a version of another place: whoever tries to
// begin at once finds no moment for that where others write without a pause. One thread's.
class WriteTurn {
 public:
  explicit WriteTurn(OpenArray& array) : array_(array) {}
  ~WriteTurn() { end(); }
  WriteTurn(const WriteTurn&) = delete;
  WriteTurn& operator=(const WriteTurn&) = delete;

  // Waits as begin_write() does for ownership. Nobody else in this process begins a write from here
  // to end(), and no other process for a moment: for 10 ms, if it waits by then.
  absl::Status take(WaitLimit& wait_limit);
  // As begin_write(), in this turn if there is one, which ends with this call, or with the write.
  absl::Status begin(WaitLimit& wait_limit, WriteAttempt& attempt, IfNoSlot if_none,
                     std::uint64_t number);
  void end();

 private:
  OpenArray& array_;
  bool taken_ = false;
};

// The number of a version that is written on one of the home's replicas; `number` begins as 0, or
// as SlotWriter::kNextToCopy. On success the home is in writing until OpenArray::end_number, as
// nobody else may give a number meanwhile. Errors as above.
absl::Status begin_number(OpenArray& home, WaitLimit& wait_limit, std::uint64_t& number);

}  // namespace memlease::internal
