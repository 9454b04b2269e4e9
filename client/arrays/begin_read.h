// Coming by a version of an array: try, spin, sleep, try again.
#pragma once

#include <memlease/array.h>

#include "absl/status/status.h"
#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"
#include "client/slots/slot_reader.h"

namespace memlease::internal {

// On success the slot is held, and Array::read's errors otherwise. `attempt` is the last try, also
// after an error.
// not_now() where it would have to wait for a version that may be on a replica: see
// client/arrays/replicas.h.
absl::Status begin_read(OpenArray& array, const ReadOptions& options, WaitLimit& wait_limit,
                        ReadAttempt& attempt);
// The error of a read of this version, whose writer died before it was complete.
absl::Status producer_died(const OpenArray& array, std::uint64_t version);
// Of an attempt that came_to_nothing().
absl::Status nothing_came(const OpenArray& array, const ReadAttempt& attempt);
// Of one that was overwritten, or given up.
absl::Status version_gone(OpenArray& array, std::uint64_t version, std::uint64_t current);

}  // namespace memlease::internal
