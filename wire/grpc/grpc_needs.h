// What gRPC needs of this process, and of its peer; its threads are in thread_reserve.h. Without
// descriptors it ends the process. Thread-safe.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace memlease::wire {

// For a call, or a user's server. kOutOfMemory.
absl::Status check_descriptors(std::string_view purpose = "to call the daemon");
// For a server of gRPC's and a few connections.
absl::Status check_descriptors_to_serve();

// How many calls at once the daemon allows on a connection, and how many a client makes:
// gRPC 1.51's server ends a connection with one call too many, and its client, though it keeps to
// the limit, has seen the end of a call before the server counts it, be it of all that it makes.
inline constexpr int kCallsPerConnection = 64;
inline constexpr int kCallsOfAClient = kCallsPerConnection / 2;

}  // namespace memlease::wire
