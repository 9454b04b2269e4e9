// The daemon's settings: a flag beats an environment variable, that beats the file, that beats the
// default. What can be set is one table (server/config_option.h); flags, variables, keys of the
// file, --help, --print-config and the checks of the manual are all read from it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "server/telemetry/log.h"

namespace memlease::server {

// Exit codes of memleased, as in sysexits(3) where that has one.
inline constexpr int kExitRuntime = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBusy = 73;    // another daemon serves the directory
inline constexpr int kExitConfig = 78;  // the file or a variable is wrong

enum class HugePages { kAuto, kNever };
enum class EventWaits { kStream, kHost };

// As the table's defaults and the user have filled it: no member has a value of its own.
struct Config {
  std::string directory;  // absolute, short enough for sockets in it
  mode_t socket_mode;
  std::uint64_t memory_limit_bytes;
  std::uint64_t warm_bytes;
  std::uint64_t quota_bytes;  // per uid; 0 = no limit, as for the next two
  std::uint64_t quota_arrays;
  std::uint64_t quota_sessions;
  std::uint64_t gpu_memory_limit_bytes;  // on each GPU; 0 = no limit, as for the next one
  std::uint64_t gpu_quota_bytes;         // on each GPU, per uid
  EventWaits event_waits;
  std::uint64_t event_wait_timeout_s;
  std::uint64_t drain_timeout_s;
  std::uint64_t idle_exit_s;  // 0 = never
  HugePages huge_pages;
  LogLevel log_level;
  LogFormat log_format;
};

// What main() has to do: with a config, run the daemon; without, print and exit.
struct Startup {
  std::optional<Config> config = {};
  int exit_code = 0;
  bool background = false;  // leave the terminal first
  std::string output = {};  // for standard output
  std::string error = {};   // for standard error
};

// The value of an environment variable, or null: getenv(3) outside of tests.
using Environment = std::function<const char*(const char*)>;

// Reads flags, environment and file. Does not touch the runtime directory.
Startup configure(std::span<const char* const> arguments, const Environment& environment);

}  // namespace memlease::server
