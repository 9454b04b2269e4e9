// Who is at the other end of a UNIX socket, as the kernel attests it for the moment of connect(2).
#pragma once

#include "absl/status/statusor.h"
#include "server/core/session_host.h"

namespace memlease::server {

// Denied for a peer that this process cannot name: one outside of the daemon's PID namespace (the
// kernel calls it 0) or user namespace (the kernel gives it the overflow uid).
absl::StatusOr<PeerIdentity> identify_peer(int socket);

}  // namespace memlease::server
