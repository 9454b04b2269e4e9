// Where the daemon's settings come from: a flag beats an environment variable, that beats the file,
// that beats the default. What can be set is one table (server/config/config_option.h); flags,
// variables, keys of the file, --help, --print-config and the checks of the manual are all read
// from it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace memlease::server {

// Exit codes of memleased, as in sysexits(3) where that has one.
inline constexpr int kExitRuntime = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBusy = 73;    // another daemon serves the directory
inline constexpr int kExitConfig = 78;  // the file or a variable is wrong

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

// Reads flags, environment and file. Does not touch the runtime directory. Relative paths of flags
// and variables begin in `folder`, where the daemon was started; those of a file must be absolute.
Startup configure(std::span<const char* const> arguments, const Environment& environment,
                  const std::string& folder);

// A setting whose value is another one now, both as the file would have it.
struct SettingChange {
  std::string_view name;
  std::string before;
  std::string after;
  std::string origin;  // of the new one: "--warm-bytes", "/etc/x.toml:3", "default"
  bool applied;        // false: it cannot change while the daemon runs
};

struct Reload {
  Config config;  // with the old values of what cannot change
  std::vector<SettingChange> changes;
};

// Reads again what configure() has read, for a daemon that runs with `now`. The error is what
// configure() would have said.
absl::StatusOr<Reload> reload(const Config& now, std::span<const char* const> arguments,
                              const Environment& environment, const std::string& folder);

}  // namespace memlease::server
