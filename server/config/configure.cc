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
std::string file_path(const Flags& flags, const Environment& environment) {
  if (!flags.config_path.empty()) return flags.config_path;
  if (std::string named = variable(environment, "MEMLEASE_CONFIG"); !named.empty()) return named;
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
  auto flags = read_flags(arguments);
  if (!flags.ok()) return refuse(kExitUsage, wire::message_of(flags.status()));
  if (!flags->answer.empty()) return {.output = flags->answer};

  // From the strongest source to the weakest: merge() keeps what is there. Every source is checked
  // in full, also where a stronger one decides.
  Settings settings = std::move(flags->settings);
  const std::string path = file_path(*flags, environment);
  absl::StatusOr<Settings> weaker[] = {read_environment(environment),
                                       path.empty() ? Settings() : read_file(path),
                                       read_defaults(environment)};
  for (auto& source : weaker) {
    if (!source.ok()) return refuse(kExitConfig, wire::message_of(source.status()));
    settings.merge(*source);
  }
  if (flags->print_config) return {.output = print_settings(settings)};
  if (flags->check_config) return {.output = "memleased: the settings are right.\n"};

  Config config{};
  for (const Option& option : options()) option.store(config, settings.at(&option).value);
  return {.config = config, .background = flags->background};
}

}  // namespace memlease::server
