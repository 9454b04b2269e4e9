// memleasectl: the command line of a memlease daemon. Parses it and calls one command.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/ctl/commands.h"
#include "client/ctl/doctor.h"
#include "client/ctl/events.h"
#include "client/ctl/signals.h"
#include "client/ctl/top.h"
#include "client/ctl/trace.h"
#include "client/ctl/watch.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "memlease/version.h"
#include "wire/error.h"
#include "wire/standard_descriptors.h"

namespace memlease::ctl {
namespace {

// What the command line said.
struct Arguments {
  Options options;
  std::string pattern;
  std::string sort_key;
  std::string name;
  std::uint32_t session = 0;
  EventsOptions events;
  TopOptions top;
  std::string sort = "rate";
  TraceOptions trace;
  double timeout_s = 30;
  bool no_color = false;
  std::function<int()> command;
};

using Call = std::function<absl::Status(const Connection&)>;

int ask_daemon(const Options& options, const Call& call) {
  auto daemon = connect(options);
  const absl::Status status =
      daemon.ok() ? with_its_reason(call(*daemon), daemon->directory) : daemon.status();
  if (has_no_reader(status)) end_by_pipe();
  if (!status.ok()) print_error(status, options);
  return exit_code_of(status);
}

// As CLI::Range, which takes NaN to be in it.
CLI::Validator range(double from, double to) {
  const auto is_in = [=](const std::string& text) {
    double value = 0;
    const bool read = CLI::detail::lexical_cast(text, value);
    return read && value >= from && value <= to
               ? std::string()
               : fmt::format("{} is not a number from {} to {}", text, from, to);
  };
  return {is_in, fmt::format("FROM {} TO {}", from, to)};
}

void add_options(CLI::App& app, Arguments& args) {
  app.add_option("-d,--directory", args.options.directory,
                 "Directory of the daemon's sockets. Default: MEMLEASE_DIR, else the user's "
                 "($XDG_RUNTIME_DIR/memlease or /tmp/memlease-<uid>), else /run/memlease")
      ->type_name("DIR")
      ->check([](const std::string& text) { return text.empty() ? "is empty" : ""; });
  app.add_flag("--json", args.options.json, "Answer and errors as JSON");
  app.add_flag("--no-color", args.no_color, "No colours on a terminal; as does NO_COLOR");
  app.add_option("--timeout", args.timeout_s, "Seconds to wait for the daemon (30)")
      ->type_name("S")
      ->check(range(0.001, 3600.0));
}

CLI::App* add_command(CLI::App& app, Arguments& args, const std::string& name,
                      const std::string& help, Call call) {
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([&args, call = std::move(call)] {
    args.command = [&args, call] { return ask_daemon(args.options, call); };
  });
  return command;
}

void add_top(CLI::App& app, Arguments& args) {
  CLI::App* top =
      app.add_subcommand("top", "Show rates of arrays, sessions and devices, again and again");
  top->callback([&args] {
    args.top.sort = kSortKeys.at(args.sort);
    args.command = [&args] { return run_top(args.options, args.top); };
  });
  std::vector<std::string> keys;
  for (const auto& [key, sort] : kSortKeys) keys.push_back(key);
  top->add_option("--sort", args.sort, "By what (rate)")
      ->type_name("KEY")
      ->check(CLI::IsMember(keys));
  top->add_option("--interval", args.top.interval_s, "Seconds between two looks (0.5)")
      ->type_name("S")
      ->check(range(0.1, 3600.0));
  top->add_flag("--once", args.top.once, "One answer, after one interval");
}

// What goes on.
void add_watching_commands(CLI::App& app, Arguments& args) {
  const Options& options = args.options;
  CLI::App* events = add_command(
      app, args, "events", "Show what has happened: creations, deaths, reclaims, degradations",
      [&](const Connection& daemon) { return show_events(daemon, options, args.events); });
  events->add_flag("-f,--follow", args.events.follow, "Go on with what happens from now on");
  events->add_option("--since", args.events.since, "Only events with a greater number")
      ->type_name("NUMBER")
      ->check(CLI::NonNegativeNumber);
  add_command(app, args, "watch", "Show each new version of an array as it comes",
              [&](const Connection& daemon) { return watch_array(daemon, options, args.name); })
      ->add_option("NAME", args.name)
      ->required();
  add_top(app, args);
  CLI::App* trace = add_command(
      app, args, "trace", "Write leases and versions to a file for ui.perfetto.dev",
      [&](const Connection& daemon) { return write_trace(daemon, options, args.trace); });
  trace->add_option("-o,--output", args.trace.file, "The file")->type_name("FILE")->required();
  trace->add_option("--duration", args.trace.duration_s, "For so many seconds (10)")
      ->type_name("S")
      ->check(range(0.01, 86400.0));
  trace->add_option("--rate", args.trace.rate_hz, "At most so many samples a second (20)")
      ->type_name("HZ")
      ->check(range(0.1, 1000.0));
}

void add_commands(CLI::App& app, Arguments& args) {
  const Options& options = args.options;
  CLI::App* ls = add_command(app, args, "ls", "List arrays", [&](const Connection& daemon) {
    return list_arrays(daemon, options, args.pattern, args.sort_key);
  });
  ls->add_option("PATTERN", args.pattern, "Of their names: * is any text, ? any one character");
  ls->add_option(
        "--sort", args.sort_key,
        fmt::format("By this column, the largest number first: {}", fmt::join(sort_keys(), ", ")))
      ->type_name("COLUMN")
      ->check(CLI::IsMember(sort_keys()));
  add_command(app, args, "info", "Show all of one array",
              [&](const Connection& daemon) { return show_array(daemon, options, args.name); })
      ->add_option("NAME", args.name)
      ->required();
  add_command(app, args, "holders", "List who holds an array, or all arrays",
              [&](const Connection& daemon) { return list_holders(daemon, options, args.name); })
      ->add_option("NAME", args.name);
  add_command(app, args, "sessions", "List the processes that are connected",
              [&](const Connection& daemon) { return list_sessions(daemon, options); });
  add_command(app, args, "status", "Show the daemon's state, memory and quotas",
              [&](const Connection& daemon) { return show_status(daemon, options); });
  add_command(app, args, "metrics", "Print the daemon's metrics, as Prometheus reads them",
              [&](const Connection& daemon) { return show_metrics(daemon, options); });
  add_command(app, args, "withdraw", "Take an array's name away; its bytes go with its last holder",
              [&](const Connection& daemon) { return withdraw(daemon, options, args.name); })
      ->add_option("NAME", args.name)
      ->required();
  add_command(app, args, "evict", "End the connection of a process",
              [&](const Connection& daemon) { return evict(daemon, options, args.session); })
      ->add_option("SESSION", args.session, "Its number, as `sessions` shows it")
      ->required();
  add_command(app, args, "health", "Ask whether the daemon takes new work",
              [&](const Connection& daemon) { return show_health(daemon, options); });
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check the daemon and this machine, and say what to do");
  doctor->callback([&args] { args.command = [&args] { return run_doctor(args.options); }; });
  doctor->add_flag("--gpu", args.options.gpu,
                   "Share an array on each GPU, too; the daemon keeps a context there");
  doctor->add_flag("--verify", args.options.verify,
                   "Let the daemon check its own books, too, which keeps calls waiting meanwhile");
}

absl::Status usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  const bool no_command = app.get_subcommands().empty() && !unknown.empty();
  return wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      no_command ? fmt::format("there is no command '{}'", unknown.front()) : error.what(),
      "Read memleasectl --help, or memleasectl COMMAND --help.");
}

// `code`, unless a full disk or a closed pipe would look like success by it.
int unless_lost(int code) {
  const bool flushed = std::fflush(stdout) == 0;
  if (code != kSuccess || (flushed && std::ferror(stdout) == 0)) return code;
  if (flushed) errno = EIO;  // an earlier part of it was lost
  std::perror("memleasectl: cannot write the answer");
  return kFailure;
}

int run(int argc, char** argv) {
  Arguments args;
  CLI::App app("Shows and manages the arrays of a memlease daemon.", "memleasectl");
  app.set_version_flag("--version", "memleasectl " MEMLEASE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // options may follow the command
  app.footer(
      "Exit status: 0; 1 failure; 2 usage; 3 not found; 4 unreachable; 5 denied; 6 timeout.");
  add_options(app, args);
  add_commands(app, args);
  add_watching_commands(app, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return unless_lost(app.exit(error));  // --help, --version
    const std::vector<std::string> words(argv + 1, argv + argc);
    args.options.json = std::find(words.begin(), words.end(), "--json") != words.end();
    print_error(usage_error(app, error), args.options);
    return kUsage;
  }
  const char* no_color = std::getenv("NO_COLOR");
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  args.options.style = {
      .human = terminal,
      .color = terminal && !args.no_color && (no_color == nullptr || *no_color == '\0'),
      .now_ms = static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::milliseconds>(now).count())};
  args.options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(args.timeout_s * 1000));
  return unless_lost(args.command());
}

}  // namespace
}  // namespace memlease::ctl

int main(int argc, char** argv) try {
  // What gRPC has to say comes back as errors; on stderr it would only repeat them.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  memlease::wire::hold_standard_descriptors();
  return memlease::ctl::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "memleasectl: %s\n", error.what());
  return memlease::ctl::kFailure;
}
