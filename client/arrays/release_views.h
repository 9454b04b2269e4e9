// Takes the slots from the views of an array that outlive their leases in this process: these see
// copies of its own from then on, at the same addresses.
#pragma once

#include "absl/status/status.h"
#include "client/arrays/open_array.h"

namespace memlease::internal {

// Copies what the views see. Not of a device's array, and not the views of write leases whose slots
// share their pages with others: these go on as they are. kOutOfMemory: some may have been
// released. Two calls at once take turns, and reads and writes go on meanwhile.
absl::Status release_views(OpenArray& array);

}  // namespace memlease::internal
