// Copies of versions between the places of an array: of one number, once for all who ask. What a
// copy needs, and what is left where its process dies: tests/model/replicas.pml.
#pragma once

#include <memlease/stream.h>

#include <chrono>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/arrays/begin_write.h"
#include "client/arrays/open_array.h"
#include "client/arrays/places.h"
#include "client/arrays/wait_limit.h"

namespace memlease::internal {

// Sleeps until something happens to the array's versions, for `longest` at most, which is asked
// once what happens from there on is seen. An interrupt, and what OpenArray::reader fails with.
absl::Status sleep_until_change(OpenArray& array, WaitLimit& wait_limit,
                                absl::FunctionRef<std::chrono::nanoseconds()> longest);

// Has the home's board say that a version may stand on this replica, unless it does: by a call.
absl::Status say_elsewhere(OpenArray& replica, const OpenArray& home, InterruptCheck interrupt);

// Copies what is newer elsewhere to where it is read, on behalf of one call. Lives no longer than
// that, on its thread. Other threads and processes may copy the same version meanwhile: one of them
// publishes it, and the others find it there.
class VersionCopier {
 public:
  // `stream`: the reader's, which copies to a GPU; none: the call waits for the copy.
  VersionCopier(const Places& places, WaitLimit& wait_limit, std::uint64_t interrupt_check,
                Stream stream)
      : places_(places),
        here_(places.here()),
        home_(places.home()),
        wait_limit_(wait_limit),
        interrupt_check_(interrupt_check),
        stream_(stream) {}

  // Until version `least`, or a later one, is here; or, where that has been lost, until nothing
  // newer is elsewhere; or until a place has been written that is not among these. Waits as long as
  // the wait limit says, for writes here, for slots, and without a stream for the copy itself;
  // calls the daemon. Holds no mutex meanwhile. kTimeout; kDenied: this process may not write here.
  // kUnsupported: what is newer is on a GPU that it does not see. kBusy: this thread is itself
  // writing. kTooManyHeld: this process holds all slots, or too many versions. What else reads and
  // writes end with: an interrupt, kWithdrawn, kDaemonLost.
  // What was given up, or lost, in an only slot: an error, and `found` is that attempt.
  absl::Status bring(std::uint64_t least, ReadAttempt& found);

 private:
  class Source;
  absl::Status check() const { return wait_limit_.check_call(); }
  absl::Status copy_from(OpenArray& from, std::uint64_t newer_than, ReadAttempt& found);
  absl::Status check_still_newest(const Source& source);
  bool knows_all_places() const;
  absl::Status copy(Source& source);
  absl::Status copy_with_new_number(Source& source);
  absl::Status begin_new_number(const Source& source, WriteAttempt& write);
  absl::Status begin_at_once(WriteAttempt& write, const WriteNumber& number);
  absl::Status acquire_ownership_to_copy();
  absl::Status wait_until_complete(const Source& source);
  absl::Status copy_and_publish(Source& source, const WriteAttempt& write);

  const Places& places_;
  OpenArray& here_;
  OpenArray& home_;
  WaitLimit& wait_limit_;
  const std::uint64_t interrupt_check_;
  const Stream stream_;
  HeldOwnership ownership_{here_};
  bool holds_slots_itself_ = false;  // so that the last try found none
};

}  // namespace memlease::internal
