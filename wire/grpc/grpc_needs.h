// What gRPC needs of this process. Without descriptors it ends the process, and without threads it
// hangs when it is shut down. Both thread-safe.
#pragma once

#include "absl/status/status.h"

namespace memlease::wire {

// For a call. kOutOfMemory.
absl::Status check_descriptors();
// For a start. Costs two small system calls, or an open file; where the limit of this user's
// threads may be near, the threads are tried. kOutOfMemory.
absl::Status check_threads();

}  // namespace memlease::wire
