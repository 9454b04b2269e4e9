// How a Client obtains its session. Implemented by the composition root (client/connect.cc), which
// finds a daemon, or starts one, and puts a session together from the adapters; in tests by
// LocalDaemon.
#pragma once

#include <memlease/client.h>

#include <memory>

#include "absl/status/statusor.h"
#include "client/arrays/array_table.h"

namespace memlease::internal {

// The process's arrays of the daemon that the options lead to, with their session: an existing one
// if there is one. The new connection is counted (Session::add_connection) already.
absl::StatusOr<std::shared_ptr<ArrayTable>> connect_session(const ConnectOptions& options);

// Whether a lease or pin lives, of any session of this process.
bool any_lease();

// This process has created a session array: its session, which is the array's life, stays until the
// process ends, or the daemon does, and is the one that connect_session() finds meanwhile. A second
// call does nothing.
void keep_session(const std::shared_ptr<ArrayTable>& arrays);

// This process's GPUs, for calls that need no session.
ImporterSource& process_importers();

}  // namespace memlease::internal
