// `memleasectl watch`: each new version of an array, as it comes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ctl/connection.h"

namespace memlease::ctl {

// A line for each version, until the array is withdrawn or the user ends it: both are a success. It
// subscribes as a reader does, sleeps until there is something, and takes no lease. What comes
// faster than it can write is skipped and counted.
absl::Status watch_array(const Connection& daemon, const Options& options, const std::string& name);

}  // namespace memlease::ctl
