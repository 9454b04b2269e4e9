// The daemon's settings, as values: what configure() (configure.h) has made of defaults, file,
// environment and flags, and checked. Whoever reads one need not check it again.
//
// A plain value, not thread-safe: each copy is its owner's. main() has one, which it changes on the
// loop's thread; the thread that reads the settings again reads it, and no reload ends meanwhile.
// Daemon has another one under its mutex. A reload replaces both; what cannot change while the
// daemon runs has the old value in it (Option::reloaded).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/core/name_rules.h"
#include "server/core/payers.h"
#include "server/telemetry/log.h"

namespace memlease::server {

enum class HugePages { kAuto, kNever };
enum class EventWaits { kStream, kHost };

// Each member but the last two is a row of the table in server/config/config_option.cc, which has
// its default, its limits and its text for the manual. No member has a value of its own: Config{}
// is not a usable one.
struct Config {
  std::string directory;             // absolute, short enough for sockets in it
  mode_t socket_mode;                // permission bits: who may connect
  std::uint64_t memory_limit_bytes;  // of the host, for all arrays
  std::uint64_t warm_bytes;          // of empty segments, kept for the next arrays; on each device
  std::uint64_t quota_bytes;         // per uid; 0 = no limit, as for the next ten
  std::uint64_t quota_arrays;
  std::uint64_t quota_open_arrays;
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
  EventWaits event_waits;                // who waits for earlier GPU work on a slot
  std::uint64_t event_wait_timeout_s;    // for hosts that wait
  std::uint64_t drain_timeout_s;         // how long leases may keep a daemon that ends
  std::uint64_t idle_exit_s;             // 0 = never
  HugePages huge_pages;
  std::string metrics;  // as parse_metrics_address() takes it
  LogLevel log_level;
  LogFormat log_format;
  std::vector<NameRule> names;  // that are reserved; none by default
  // No setting, but the system's: who pays for whom.
  std::vector<SubordinateUids> subordinate_uids;
};

}  // namespace memlease::server
