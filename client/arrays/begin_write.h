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

// What a caller does where there is no free slot in time: tell its user why; or go on without the
// write; or wait for one in another way.
enum class IfNoSlot : std::uint8_t { kExplain, kSkip, kReturn };

// On success the array is in writing (Writing::enter) and a slot is the caller's until
// OpenArray::end_write. Array::write's errors otherwise. With kSkip nobody asks who holds the
// slots, nor, for a moment, a daemon that has refused one more. With kReturn the daemon is not
// asked for one more either, and kNoFreeSlot has no text. `number`: not_now(), with attempt.outcome
// kNumberUsed, where a copy cannot have it here.
absl::Status begin_write(OpenArray& array, WaitLimit& wait_limit, WriteAttempt& attempt,
                         IfNoSlot if_none = IfNoSlot::kExplain, const WriteNumber& number = {});
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
                     const WriteNumber& number);
  void release();

 private:
  OpenArray& array_;
  bool held_ = false;
};

// The home's next number, for a version that is written on one of its replicas, or `to_copy` one
// there. On success the home is in writing until OpenArray::end_number, as nobody else may give a
// number meanwhile; it is used once a write there begins with it. Errors as above.
absl::Status claim_number(OpenArray& home, WaitLimit& wait_limit, bool to_copy);

}  // namespace memlease::internal
