// Where the daemon's settings come from: a flag beats an environment variable, that beats the file,
// that beats the default. What can be set is one table (server/config/config_option.h); flags,
// variables, keys of the file, --help, --print-config and the checks of the manual are all read
// from it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

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

// Reads flags, environment and file. Does not touch the runtime directory.
Startup configure(std::span<const char* const> arguments, const Environment& environment);

}  // namespace memlease::server
