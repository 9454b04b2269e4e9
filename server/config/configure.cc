#include "server/config/configure.h"

#include <unistd.h>

#include "fmt/format.h"
#include "server/config/config_option.h"
#include "server/config/name_reservation.h"
#include "server/config/subordinate_uids.h"
#include "wire/error.h"
#include "wire/place.h"
#include "wire/utf8.h"

namespace memlease::server {
namespace {

Startup refuse(int exit_code, std::string_view message) {
  const char* const hint = exit_code == kExitUsage ? "Try: memleased --help\n" : "";
  return {.exit_code = exit_code,
          .error = fmt::format("memleased: {}\n{}", wire::printable(message), hint)};
}

// An empty variable counts as none.
std::string variable(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value != nullptr ? value : "";
}

absl::StatusOr<Source> read_environment(const Environment& environment, const std::string& folder) {
  Source source;
  for (const Option& option : options()) {
    const std::string name(option.variable);
    const std::string text = text_in(folder, option, variable(environment, name.c_str()));
    if (text.empty()) continue;
    if (auto status = add_setting(source.settings, option, text, name); !status.ok()) {
      return status;
    }
  }
  return source;
}

// The file to read: the named one, else the user's, else the system's, else none.
std::string file_path(const Flags& flags, const Environment& environment,
                      const std::string& folder) {
  std::string named = flags.config_path;
  if (named.empty()) named = variable(environment, "MEMLEASE_CONFIG");
  if (!named.empty()) return path_in(folder, named);
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

absl::StatusOr<Source> read_defaults(const Environment& environment) {
  Source source;
  for (const Option& option : options()) {
    const std::string text = default_text(option, environment);
    if (auto status = add_setting(source.settings, option, text, "default"); !status.ok()) {
      return status;
    }
  }
  return source;
}

// From the strongest source to the weakest: merge() keeps what is there. Every source is checked in
// full, also where a stronger one decides.
absl::StatusOr<Source> read_sources(const Flags& flags, const Environment& environment,
                                    const std::string& folder) {
  Source all{flags.settings};
  const std::string path = file_path(flags, environment, folder);
  absl::StatusOr<Source> weaker[] = {read_environment(environment, folder),
                                     path.empty() ? Source() : read_file(path),
                                     read_defaults(environment)};
  for (auto& source : weaker) {
    if (!source.ok()) return source.status();
    all.settings.merge(source->settings);
    if (!source->names.empty()) all.names = std::move(source->names);
  }
  return all;
}

// Lines of the file, with the origin of each value as a comment.
std::string print_source(const Source& source) {
  std::string lines;
  const auto add = [&](const std::string& line, const std::string& origin) {
    lines += fmt::format("{:<44}# {}\n", line, origin);
  };
  for (const Option& option : options()) {
    const auto& [value, origin] = source.settings.at(&option);
    add(fmt::format("{} = {}", option.name, print_value(option, value)), origin);
  }
  if (!source.names.empty()) lines += "[names]\n";
  for (const auto& [rule, origin] : source.names) add(print_rule(rule), origin);
  return lines;
}

std::vector<NameRule> rules_of(const Source& source) {
  std::vector<NameRule> rules;
  for (const auto& [rule, origin] : source.names) rules.push_back(rule);
  return rules;
}

}  // namespace

Startup configure(std::span<const char* const> arguments, const Environment& environment,
                  const std::string& folder) {
  const auto flags = read_flags(arguments, folder);
  if (!flags.ok()) return refuse(kExitUsage, wire::message_of(flags.status()));
  if (!flags->answer.empty()) return {.output = flags->answer};

  const auto source = read_sources(*flags, environment, folder);
  if (!source.ok()) return refuse(kExitConfig, wire::message_of(source.status()));
  if (flags->print_config) return {.output = print_source(*source)};
  if (flags->check_config) return {.output = "memleased: the settings are right.\n"};

  Config config{};
  for (const Option& option : options()) {
    option.member.store(config, source->settings.at(&option).value);
  }
  config.names = rules_of(*source);
  config.subordinate_uids = read_subordinate_uids();
  return {.config = config, .background = flags->background};
}

absl::StatusOr<Reload> reload(const Config& now, std::span<const char* const> arguments,
                              const Environment& environment, const std::string& folder) {
  const auto flags = read_flags(arguments, folder);
  if (!flags.ok()) return flags.status();
  const auto source = read_sources(*flags, environment, folder);
  if (!source.ok()) return source.status();
  Reload reload{now, {}};
  for (const Option& option : options()) {
    const auto& [value, origin] = source->settings.at(&option);
    const OptionValue before = option.member.load(now);
    if (value == before) continue;
    reload.changes.push_back({option.name, print_value(option, before), print_value(option, value),
                              origin, option.reloaded});
    if (option.reloaded) option.member.store(reload.config, value);
  }
  reload.config.names = rules_of(*source);
  reload.config.subordinate_uids = read_subordinate_uids();
  const std::string before = print_rules(now.names);
  const std::string after = print_rules(reload.config.names);
  if (after != before) {
    const std::string& origin = source->names.empty() ? "default" : source->names.front().origin;
    reload.changes.push_back({"names", before, after, origin, true});
  }
  return reload;
}

}  // namespace memlease::server
