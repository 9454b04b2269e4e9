#include "server/limits.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include "server/system.h"

namespace memlease::server {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

// All processes that a user may connect call at once, and memleasectl beside them. 0: no limit.
std::uint64_t connections_of_a_user(const Config& config) {
  constexpr std::uint64_t kBesideSessions = 128;
  return config.quota_sessions == 0 ? 0 : config.quota_sessions + kBesideSessions;
}

// Of all users; so many that by the rule of parts three of them may have what a user may.
std::uint64_t connections(const Config& config) {
  constexpr std::uint64_t kUsers = 7;
  return kUsers * connections_of_a_user(config);
}

}  // namespace

std::uint32_t log_lines_of_a_user(const Config& config) {
  return static_cast<std::uint32_t>(
      config.quota_log_lines == 0 ? kNoLimit : std::min(config.quota_log_lines, kNoLimit));
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
                      .request_bytes = config.quota_request_bytes,
                      .connections = connections_of_a_user(config),
                      .open_arrays = config.quota_open_arrays},
          .names = NameRules(config.names),
          .supply = {descriptor_limit(), connections(config), ::geteuid()}};
}

DeviceLimits gpu_limits(const Config& config) {
  return {{config.gpu_memory_limit_bytes, config.warm_bytes, "gpu_memory_limit_bytes"},
          config.gpu_quota_bytes,
          "gpu_quota_"};
}

}  // namespace memlease::server
