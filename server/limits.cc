#include "server/limits.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "server/system.h"

namespace memlease::server {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::uint32_t log_lines_of_a_user(const Config& config) {
  return static_cast<std::uint32_t>(
      config.quota_log_lines == 0 ? kNoLimit : std::min(config.quota_log_lines, kNoLimit));
}

// All processes that a user may connect call at once, and memleasectl beside them.
GrpcLimits grpc_limits(const Config& config) {
  constexpr std::uint64_t kBesideSessions = 128;
  GrpcLimits limits;
  limits.connections_per_uid = static_cast<std::uint32_t>(
      config.quota_sessions == 0 ? kNoLimit : config.quota_sessions + kBesideSessions);
  limits.connections = std::max(limits.connections, limits.connections_per_uid);
  return limits;
}

Broker::Limits broker_limits(const Config& config) {
  return {.memory = {config.memory_limit_bytes, config.warm_bytes},
          .per_uid = {.bytes = config.quota_bytes,
                      .arrays = config.quota_arrays,
                      .sessions = config.quota_sessions,
                      .descriptors = config.quota_descriptors,
                      .page_bytes = config.quota_page_bytes,
                      .file_numbers = config.quota_file_numbers,
                      .waiting_calls = config.quota_waiting_calls,
                      .requests = config.quota_requests,
                      .request_bytes = config.quota_request_bytes},
          .names = NameRules(config.names),
          .supply = {descriptor_limit(), ::geteuid()}};
}

DeviceLimits gpu_limits(const Config& config) {
  return {{config.gpu_memory_limit_bytes, config.warm_bytes, "gpu_memory_limit_bytes"},
          config.gpu_quota_bytes,
          "gpu_quota_"};
}

}  // namespace memlease::server
