// The limits that the settings give, in the words of those who keep within them. Called by Daemon,
// when it starts, and after each reload for those that may change. Thread-safe; none blocks or
// fails. What is 0 in Config, for no limit, is what each limit has for that: 0, or the largest
// number.
#pragma once

#include <cstdint>

#include "server/config/config.h"
#include "server/core/broker.h"
#include "server/core/device_table.h"

namespace memlease::server {

// Beside the settings: how many descriptors this process may have open now, and whose it is.
Broker::Limits broker_limits(const Config& config);
DeviceLimits gpu_limits(const Config& config);  // of each GPU
// Lines of the log that a user may cause in the time that its limiter has. Read at the start alone.
std::uint32_t log_lines_of_a_user(const Config& config);

}  // namespace memlease::server
