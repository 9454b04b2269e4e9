// The table of options and what its three readers (flags, environment, file) share. Private to
// server/config/config*.cc and its tests.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace memlease::server {

enum class OptionKind {
  kPath,     // absolute
  kMode,     // octal permission bits
  kBytes,    // 4096, 64KiB, 2GiB, or 50% of the machine's memory
  kSize,     // the same without a part of the machine's memory
  kCount,    // an integer
  kSeconds,  // an integer
  kWord,     // one of `words`
  kMetrics,  // as parse_metrics_address() takes it
};

using OptionValue =
    std::variant<std::uint64_t, std::string>;  // kWord: index; kPath, kMetrics: text

struct Option {
  std::string_view name;  // key of the file; the flag is --with-hyphens
  std::string_view variable;
  OptionKind kind;
  std::string_view default_text;
  std::uint64_t least;
  std::uint64_t most;
  std::array<std::string_view, 4> words;
  struct Member {  // of Config
    void (*store)(Config&, const OptionValue&);
    OptionValue (*load)(const Config&);
  } member;
  bool reloaded;  // may change while the daemon runs
  std::string_view help;
};

std::span<const Option> options();
const Option* find_option(std::string_view name);
std::string flag_of(const Option& option);         // "--warm-bytes"
std::string placeholder_of(const Option& option);  // "BYTES"

// In the file's syntax, such that it can be read back: "256MiB" with its quotes, 25, 0o600.
std::string print_value(const Option& option, const OptionValue& value);

// " Did you mean 'warm_bytes'?", or nothing if no candidate is near.
std::string suggestion_for(std::string_view wrong, std::span<const std::string> candidates);

struct Setting {
  OptionValue value;
  std::string origin;  // "--warm-bytes", "MEMLEASE_WARM_BYTES", "/etc/x.toml:3", "default"
};
using Settings = std::map<const Option*, Setting>;

// What one source gave. Names are reserved by the file alone.
struct Source {
  Settings settings;
  struct Reservation {
    NameRule rule;
    std::string origin;
  };
  std::vector<Reservation> names = {};
};

// Parses and adds. The error begins with the origin.
absl::Status add_setting(Settings& settings, const Option& option, std::string_view text,
                         const std::string& origin);

// A path as a shell's user means it: a relative one begins in `folder`, where the daemon was
// started (empty: unknown, and the path stays relative).
std::string path_in(const std::string& folder, const std::string& path);
// The same for the text of an option that is a path; others stay as they are.
std::string text_in(const std::string& folder, const Option& option, const std::string& text);

// server/config/config_file.cc. An error begins with the path.
absl::StatusOr<Source> read_file(const std::string& path);
// What a file of this path would say.
absl::StatusOr<Source> read_settings(const std::string& text, const std::string& path);

struct Flags {
  Settings settings;
  std::string config_path;
  bool print_config = false;
  bool check_config = false;
  bool background = false;
  std::string answer;  // to --help or --version
};

// server/config/config_flags.cc
absl::StatusOr<Flags> read_flags(std::span<const char* const> arguments, const std::string& folder);

}  // namespace memlease::server
