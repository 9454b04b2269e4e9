// What the daemon does, in one line for people: `systemctl status` shows it.
#pragma once

#include <string>

#include "server/core/broker.h"

namespace memlease::server {

// "serving 12 arrays, 3.1 GiB, 4 sessions"; while the broker drains, who still holds leases.
std::string status_line(const Broker& broker);
// "pid 4711, session 7": the sessions that hold leases, by number where they are in another PID
// namespace; eight at most, then "...". "" if nobody does.
std::string lease_holders(const Broker& broker);

}  // namespace memlease::server
