// What gRPC needs of this process, and of its peer. Without descriptors it ends the process, and
// without threads it hangs when it is shut down. Both calls are thread-safe.
#pragma once

#include "absl/status/status.h"

namespace memlease::wire {

// For a call. kOutOfMemory.
absl::Status check_descriptors();
// For a start. Costs two small system calls, or an open file; where the limit of this user's
// threads may be near, the threads are tried. kOutOfMemory.
absl::Status check_threads();

// How many calls at once the daemon allows on a connection, and how many a client makes:
// gRPC 1.51's server ends a connection with one call too many, and its client, though it keeps to
// the limit, has seen the end of a call before the server counts it, be it of all that it makes.
inline constexpr int kCallsPerConnection = 64;
inline constexpr int kCallsOfAClient = kCallsPerConnection / 2;

}  // namespace memlease::wire
