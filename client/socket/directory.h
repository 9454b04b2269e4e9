// Where a daemon may be, and whether a directory there can be trusted: whoever may write to it
// could put a socket of their own into it. Used by connect() and memleasectl. Thread-safe as long
// as nobody changes the environment meanwhile.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace memlease::internal {

// In the order in which to try them. `named`, or else MEMLEASE_DIR, stands alone; without them the
// user's directory comes before the system's.
std::vector<std::string> candidate_directories(std::string_view named);

// Of a relative path: "localhost:5000", "tcp://node1". Rather a mistake than a directory's name.
bool is_address(std::string_view path);

// kDaemonUnavailable: nothing is there. kInvalidArgument: no directory. kDenied: it is owned by
// somebody who has no business there, or its group or others may write to it. Its owner may be root
// and this process's effective uid; or anybody, where it stands in a directory that root alone
// writes to, as /run/memlease does.
absl::Status check_directory(const std::string& directory);

// The daemon there is ending: it serves those who are connected, and takes nobody any more.
bool is_ending(const std::string& directory);

}  // namespace memlease::internal
