// How Client comes by its session. Implemented by the composition root (client/connect.cc): finds a
// daemon, or starts one, and puts a session together from the adapters, which the core does not
// know.
#pragma once

#include <memlease/client.h>

#include <memory>

#include "absl/status/statusor.h"
#include "client/core/session.h"

namespace memlease::internal {

// The process's session with the daemon that the options lead to: an existing one if there is one.
// The new connection is counted (Session::add_connection) already.
absl::StatusOr<std::shared_ptr<Session>> connect_session(const ConnectOptions& options);

}  // namespace memlease::internal
