// Coming by writer ownership of an array: the daemon grants it where nobody has it, or offers the
// present writer's once that one is between two writes.
#pragma once

#include "absl/status/status.h"
#include "client/arrays/counted_wait.h"
#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"

namespace memlease::internal {

// For whoever has entered writing; asks the daemon, and sleeps while the present writer is in a
// write. On success array.writing().slot_writer() is there, and ownership this process's. After an
// error the daemon has been told that nobody waits any more, unless it does not answer. kTimeout:
// it did not come within the limit; else what the daemon or the interrupt check says.
absl::Status acquire_ownership(OpenArray& array, WaitLimit& wait_limit, CountedWait& wait);

}  // namespace memlease::internal
