// The limits that the settings give, in the words of those who keep within them.
#pragma once

#include <cstdint>

#include "server/config/config.h"
#include "server/core/broker.h"
#include "server/core/device_table.h"
#include "server/rpc/grpc_server.h"

namespace memlease::server {

Broker::Limits broker_limits(const Config& config);
DeviceLimits gpu_limits(const Config& config);  // of each GPU
GrpcLimits grpc_limits(const Config& config);
// Of the log, that a user may cause in a time.
std::uint32_t log_lines_of_a_user(const Config& config);

}  // namespace memlease::server
