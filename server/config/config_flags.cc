// Reads the command line. The only unit that includes CLI11.
#include <CLI/CLI.hpp>
#include <memory>

#include "fmt/format.h"
#include "server/config/config_option.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

constexpr const char* kFooter =
    "Each option can also be set by an environment variable (MEMLEASE_DIR for --directory, else "
    "--foo-bar is\nMEMLEASE_FOO_BAR) and in the file (--foo-bar is foo_bar). A flag beats a "
    "variable, that beats the file.\nThe manual: memleased(8).";

std::string help_of(const Option& option) {
  if (option.default_text.empty()) return std::string(option.help);
  return fmt::format("{} Default: {}.", option.help, option.default_text);
}

absl::Status usage_error(std::string_view what) {
  return wire::make_error(wire::ErrorCode::kInvalidArgument, what);
}

absl::Status unexpected(const std::string& argument) {
  std::vector<std::string> known{"--config",     "--print-config", "--check-config",
                                 "--background", "--help",         "--version"};
  for (const Option& option : options()) known.push_back(flag_of(option));
  const std::string name = argument.substr(0, argument.find('='));
  return usage_error(
      fmt::format("unknown argument '{}'.{}", argument, suggestion_for(name, known)));
}

}  // namespace

absl::StatusOr<Flags> read_flags(std::span<const char* const> arguments,
                                 const std::string& folder) {
  Flags flags;
  CLI::App app("Owns named arrays in memory and leases them to the processes of this machine.",
               "memleased");
  app.set_version_flag("--version", "memleased " MEMLEASE_VERSION);
  app.footer(kFooter);
  app.get_formatter()->column_width(36);
  app.allow_extras();  // to name what was meant

  std::map<const Option*, std::string> texts;
  std::map<const Option*, CLI::Option*> rows;
  for (const Option& option : options()) {
    rows[&option] = app.add_option(flag_of(option), texts[&option], help_of(option))
                        ->type_name(placeholder_of(option));
  }
  app.add_option("--config", flags.config_path,
                 "File of settings. Default: the first there is of\n"
                 "$XDG_CONFIG_HOME/memlease/memleased.toml, /etc/memlease/memleased.toml.")
      ->type_name("PATH");
  app.add_flag("--print-config", flags.print_config,
               "Print each setting and where it comes from, as a file, and exit.");
  app.add_flag("--check-config", flags.check_config,
               "Check the settings and exit: 0 if they are right, 78 if not.");
  app.add_flag("--background", flags.background,
               "Leave the terminal; return once the daemon serves, or has failed. It logs to\n"
               "memleased.log in its directory.");
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::Success& request) {
    std::ostringstream answer;
    app.exit(request, answer, answer);
    flags.answer = answer.str();
    return flags;
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (const auto extra = app.remaining(); !extra.empty()) return unexpected(extra.front());
  for (const auto& [option, row] : rows) {
    if (row->count() == 0) continue;
    const std::string text = text_in(folder, *option, texts[option]);
    auto status = add_setting(flags.settings, *option, text, flag_of(*option));
    if (!status.ok()) return status;
  }
  return flags;
}

}  // namespace memlease::server
