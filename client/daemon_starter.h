// Starting a daemon for a user who has none.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/session/interrupt.h"

namespace memlease::internal {

// Returns once a daemon serves in the directory, which another process may have started at the same
// time. It runs in the background and ends by itself when nobody needs it any more. `program`:
// empty for MEMLEASE_DAEMON, else one beside this library, else in $PATH. kDaemonUnavailable, with
// what the daemon said, or what `interrupt` says: the daemon that was being started is killed then.
// Else empty, or what it said where this process cannot know how it ended: it ignores SIGCHLD, or
// another thread waits for all children.
absl::StatusOr<std::string> start_daemon(const std::string& directory, const std::string& program,
                                         InterruptCheck interrupt);

}  // namespace memlease::internal
