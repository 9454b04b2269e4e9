// What the daemon does, in one line for people: `systemctl status` shows it.
#pragma once

#include <string>

#include "server/core/broker.h"

namespace memlease::server {

// "serving 12 arrays, 3.1 GiB, 4 sessions"; while the broker drains, who still holds leases.
std::string status_line(const Broker& broker);

}  // namespace memlease::server
