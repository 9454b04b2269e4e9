#include "server/config/configure.h"

#include <unistd.h>

#include "fmt/format.h"
#include "server/config/config_option.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

Startup refuse(int exit_code, std::string_view message) {
  const char* const hint = exit_code == kExitUsage ? "Try: memleased --help\n" : "";
  return {.exit_code = exit_code, .error = fmt::format("memleased: {}\n{}", message, hint)};
}

// An empty variable counts as none.
std::string variable(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr ? value : "";
}

absl::StatusOr<Settings> read_environment(const Environment& environment) {
  Settings settings;
  for (const Option& option : options()) {
    const std::string name(option.variable);
    const std::string text = variable(environment, name.c_str());
    if (text.empty()) continue;
    if (auto status = add_setting(settings, option, text, name); !status.ok()) return status;
  }
  return settings;
}

// The file to read: the named one, else the user's, else the system's, else none.
std::string file_path(const Flags& flags, const Environment& environment,
                      const std::string& folder) {
  std::string named = flags.config_path;
  if (named.empty()) named = variable(environment, "MEMLEASE_CONFIG");
  if (!named.empty()) return named.front() == '/' ? named : folder + named;
  std::string home = variable(environment, "XDG_CONFIG_HOME");
  if (home.empty()) {
    home = variable(environment, "HOME");
    if (!home.empty()) home += "/.config";
  }
  std::string users = home + "/memlease/memleased.toml";
  if (!home.empty() && ::access(users.c_str(), F_OK) == 0) return users;
  const std::string systems = "/etc/memlease/memleased.toml";
  return ::access(systems.c_str(), F_OK) == 0 ? systems : "";
}

std::string default_text(const Option& option, const Environment& environment) {
  if (option.kind != OptionKind::kPath) return std::string(option.default_text);
  return wire::user_directory(variable(environment, "XDG_RUNTIME_DIR"));
}

absl::StatusOr<Settings> read_defaults(const Environment& environment) {
  Settings settings;
  for (const Option& option : options()) {
    const std::string text = default_text(option, environment);
    if (auto status = add_setting(settings, option, text, "default"); !status.ok()) return status;
  }
  return settings;
}

// From the strongest source to the weakest: merge() keeps what is there. Every source is checked in
// full, also where a stronger one decides. `folder`: what a relative path of a file begins with.
absl::StatusOr<Settings> read_sources(const Flags& flags, const Environment& environment,
                                      const std::string& folder) {
  Settings settings = flags.settings;
  const std::string path = file_path(flags, environment, folder);
  absl::StatusOr<Settings> weaker[] = {read_environment(environment),
                                       path.empty() ? Settings() : read_file(path),
                                       read_defaults(environment)};
  for (auto& source : weaker) {
    if (!source.ok()) return source.status();
    settings.merge(*source);
  }
  return settings;
}

// Lines of the file, with the origin of each value as a comment.
std::string print_settings(const Settings& settings) {
  std::string lines;
  for (const Option& option : options()) {
    const auto& [value, origin] = settings.at(&option);
    const std::string line = fmt::format("{} = {}", option.name, print_value(option, value));
    lines += fmt::format("{:<44}# {}\n", line, origin);
  }
  return lines;
}

}  // namespace

Startup configure(std::span<const char* const> arguments, const Environment& environment) {
  const auto flags = read_flags(arguments);
  if (!flags.ok()) return refuse(kExitUsage, wire::message_of(flags.status()));
  if (!flags->answer.empty()) return {.output = flags->answer};

  const auto settings = read_sources(*flags, environment, "");
  if (!settings.ok()) return refuse(kExitConfig, wire::message_of(settings.status()));
  if (flags->print_config) return {.output = print_settings(*settings)};
  if (flags->check_config) return {.output = "memleased: the settings are right.\n"};

  Config config{};
  for (const Option& option : options()) {
    option.member.store(config, settings->at(&option).value);
  }
  return {.config = config, .background = flags->background};
}

absl::StatusOr<Reload> reload(const Config& now, std::span<const char* const> arguments,
                              const Environment& environment, const std::string& folder) {
  const auto flags = read_flags(arguments);
  if (!flags.ok()) return flags.status();
  const auto settings = read_sources(*flags, environment, folder + "/");
  if (!settings.ok()) return settings.status();
  Reload reload{now, {}};
  for (const Option& option : options()) {
    const auto& [value, origin] = settings->at(&option);
    const OptionValue before = option.member.load(now);
    if (value == before) continue;
    reload.changes.push_back({option.name, print_value(option, before), print_value(option, value),
                              origin, option.reloaded});
    if (option.reloaded) option.member.store(reload.config, value);
  }
  return reload;
}

}  // namespace memlease::server
