// For a daemon that cannot start, but whose sockets a service manager keeps: who waits there is
// told why, where the manager would start the daemon again and again for him.
#pragma once

#include <chrono>
#include <span>

#include "absl/status/status.h"

namespace memlease::server {

// Returns at once if nobody waits at `listeners`, which are sockets of the attach channel and
// others. Refuses whoever comes otherwise, for so long, or until `stop` can be read; -1: it never
// can. On others than the attach channel the connection is closed without a word.
void refuse_who_waits(std::span<const int> listeners, const absl::Status& reason,
                      std::chrono::milliseconds time, int stop);

}  // namespace memlease::server
