// Who is at the other end of a UNIX socket, as the kernel attests it for the moment of connect(2).
#pragma once

#include "absl/status/statusor.h"
#include "server/core/session_host.h"

namespace memlease::server {

// Without a pid for a peer outside of this process's PID namespace; the command is not filled in.
// Denied for one whose user has no number in this process's user namespace (the kernel gives it the
// overflow uid).
absl::StatusOr<PeerIdentity> identify_peer(int socket);

// Whether /proc is of this process's PID namespace. If not, a peer's number is another's there.
bool proc_shows_peers();

}  // namespace memlease::server
