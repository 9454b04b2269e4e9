// The daemon's settings, as values: what configure() (configure.h) has made of defaults, file,
// environment and flags, and checked. A plain value: each copy is its owner's. Daemon keeps one
// under its mutex and replaces what a reload may change.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/core/name_rules.h"
#include "server/telemetry/log.h"

namespace memlease::server {

enum class HugePages { kAuto, kNever };
enum class EventWaits { kStream, kHost };

// As the table's defaults and the user have filled it: no member has a value of its own.
struct Config {
  std::string directory;  // absolute, short enough for sockets in it
  mode_t socket_mode;
  std::uint64_t memory_limit_bytes;
  std::uint64_t warm_bytes;
  std::uint64_t quota_bytes;  // per uid; 0 = no limit, as for the next nine
  std::uint64_t quota_arrays;
  std::uint64_t quota_sessions;
  std::uint64_t quota_descriptors;
  std::uint64_t quota_page_bytes;
  std::uint64_t quota_file_numbers;
  std::uint64_t quota_waiting_calls;
  std::uint64_t quota_requests;
  std::uint64_t quota_request_bytes;
  std::uint64_t quota_log_lines;
  std::uint64_t gpu_memory_limit_bytes;  // on each GPU; 0 = no limit, as for the next one
  std::uint64_t gpu_quota_bytes;         // on each GPU, per uid
  EventWaits event_waits;
  std::uint64_t event_wait_timeout_s;
  std::uint64_t drain_timeout_s;
  std::uint64_t idle_exit_s;  // 0 = never
  HugePages huge_pages;
  std::string metrics;  // as parse_metrics_address() takes it
  LogLevel log_level;
  LogFormat log_format;
  std::vector<NameRule> names;  // that are reserved; none by default
};

}  // namespace memlease::server
