// memleased: owns arrays and leases them to processes. See docs/architecture.md.

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "fmt/format.h"
#include "server/channel/refusal.h"
#include "server/config/background.h"
#include "server/config/configure.h"
#include "server/config/directory.h"
#include "server/config/service_environment.h"
#include "server/daemon.h"
#include "server/device/memfd_device_backend.h"
#include "server/loop/errand.h"
#include "server/loop/event_loop.h"
#include "server/loop/service_manager.h"
#include "server/memory_reserve.h"
#include "server/rpc/library_log.h"
#include "server/telemetry/log.h"
#include "wire/error.h"
#include "wire/place.h"
#include "wire/standard_descriptors.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

// Of the file that a daemon in the background logs to, and of the one before: it may lie in memory.
constexpr std::uint64_t kLogFileBytes = std::uint64_t{4} << 20;

int exit_code_of(const absl::Status& status) {
  switch (wire::code_of(status)) {
    case wire::ErrorCode::kBusy:
      return kExitBusy;
    case wire::ErrorCode::kInvalidArgument:
      return kExitConfig;
    default:
      return kExitRuntime;
  }
}

int fail(Log& log, const absl::Status& status) {
  log.error(wire::message_of(status), {{"hint", wire::hint_of(status)}});
  return exit_code_of(status);
}

// SIGTERM, SIGINT and SIGHUP as a descriptor. Blocked before any thread starts, so that all inherit
// it; nothing else is, whatever the process blocks that started this one.
wire::UniqueFd block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond RLIMIT_FSIZE is an error of one call
  return wire::UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

void raise_limit(__rlimit_resource_t what) {
  rlimit limit{};
  if (getrlimit(what, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(what, &limit);
}

// The usual soft limit of descriptors is there for select(2), which nobody here calls; a connection
// costs two descriptors, or three through the gate, a shared file one. Shared memory counts as
// files, whose size is limited where somebody has said so in a shell, or where a program did that
// has started this one, as it may have limited its own processor time.
void raise_limits() {
  raise_limit(RLIMIT_NOFILE);
  raise_limit(RLIMIT_FSIZE);
  raise_limit(RLIMIT_CPU);
}

// It may come before there is a handler for it, from a terminal that is closed just now.
void block_sighup() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

// Whether others than the daemon's user may connect, by the mode of its socket.
bool is_shared(const std::string& directory) {
  struct stat status{};
  const std::string socket = fmt::format("{}/{}", directory, wire::kControlSocket);
  return stat(socket.c_str(), &status) == 0 && (status.st_mode & 0066U) != 0;
}

// What the daemon was started with, to be read again by SIGHUP.
struct CommandLine {
  std::span<const char* const> arguments;
  std::string folder;
};

const char* environment(const char* name) { return std::getenv(name); }

void log_changes(const Reload& reload, Log& log) {
  for (const SettingChange& change : reload.changes) {
    if (change.applied) {
      log.info("a setting has changed", {{"setting", change.name},
                                         {"from", change.before},
                                         {"to", change.after},
                                         {"origin", change.origin}});
    } else {
      log.warning("a setting cannot change while the daemon runs: restart it",
                  {{"setting", change.name},
                   {"stays", change.before},
                   {"wanted", change.after},
                   {"origin", change.origin}});
    }
  }
}

// SIGHUP. `config` is what the daemon runs with.
void apply(const absl::StatusOr<Reload>& reloaded, Config& config, Daemon& daemon,
           ServiceManager& manager, Log& log) {
  log.reopen_file();
  if (reloaded.ok()) {
    // First, as the level may be among them.
    log_changes(*reloaded, log);
    config = reloaded->config;
    daemon.reload(config);
    const auto changed = std::ranges::count_if(reloaded->changes, &SettingChange::applied);
    log.info("SIGHUP: settings read again", {{"changed", changed}});
  } else {
    log.error("SIGHUP: the settings are wrong, the old ones stay",
              {{"reason", wire::message_of(reloaded.status())}});
  }
  (void)manager.ready();
}

// Whoever waits at sockets that a service manager keeps would have it start the daemon again at
// once, until it gives the sockets up, too: our unit allows 30 starts in 60 s.
constexpr std::chrono::seconds kRefusing{7};

// `stop`: see refuse_who_waits().
void refuse_at(const std::vector<PassedSocket>& sockets, int stop) {
  std::vector<int> listeners;
  for (const PassedSocket& socket : sockets) listeners.push_back(socket.fd.get());
  refuse_who_waits(listeners,
                   wire::make_error(wire::ErrorCode::kClosed,
                                    "memleased cannot start: its settings, its directory or its "
                                    "sockets are wrong",
                                    "Whoever runs it finds what is wrong in its log: journalctl "
                                    "-u memleased."),
                   kRefusing, stop);
}

int serve(Config config, const CommandLine& command_line, Background& background) {
  // First of all, as it knows the passed sockets by their numbers.
  auto service = ServiceEnvironment::take();
  MemoryReserve reserve;
  // abseil, as Debian builds it, looks for deadlocks among its mutexes, and ends the process where
  // it gets no memory for that.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  Log log(config.log_level, config.log_format);
  const LibraryLog library_log(log);
  if (!service.ok()) return fail(log, service.status());
  if (!reserve.is_there()) {
    log.warning("the daemon gets too little memory: nothing new begins",
                {{"hint", "Raise ulimit -v, LimitAS= or LimitDATA=."}});
  }
  raise_limits();
  memory_room(UINT64_MAX, {}, wire::ReserveKept::kAll);  // which opens the files that tell it
  // Tokens live in this process's memory.
  prctl(PR_SET_DUMPABLE, 0);
  const bool shared = (config.socket_mode & 0066U) != 0 || is_shared(config.directory);
  const bool hidden = !shared || hide_command_line();
  umask(0077);
  const wire::UniqueFd signals = block_signals();
  auto directory = Directory::lock(config.directory);
  const absl::Status used = directory.ok() ? directory->use(service->sockets) : directory.status();
  if (!used.ok()) {
    const int exit_code = fail(log, used);
    refuse_at(service->sockets, signals.get());
    return exit_code;
  }
  auto loop = EventLoop::create();
  if (!loop.ok()) return fail(log, loop.status());
  ServiceManager manager(**loop, service->notify_socket, service->watchdog);
  auto daemon = Daemon::start(config, {*directory, **loop, manager, log, reserve});
  if (!daemon.ok()) return fail(log, daemon.status());
  // Users and groups that settings name may be looked up over a network, which takes its time.
  Errand rereading(**loop, [&]() -> EventLoop::Task {
    auto reloaded = reload(config, command_line.arguments, environment, command_line.folder);
    return [&, reloaded = std::move(reloaded)] { apply(reloaded, config, **daemon, manager, log); };
  });
  const auto added = (*loop)->add(signals.get(), EPOLLIN, [&](std::uint32_t) {
    signalfd_siginfo info{};
    while (read(signals.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGHUP) {
        (void)manager.reloading();
        rereading.begin();
      } else {
        (*daemon)->drain();
      }
    }
  });
  if (!added.ok()) return fail(log, added);
  if (is_shared(config.directory) && !MemfdDeviceBackend::keeps_pages()) {
    log.warning("who may write an array or a row can make the daemon, and others, wait",
                {{"hint",
                  "Give the daemon CAP_LINUX_IMMUTABLE (AmbientCapabilities=), on Linux 6.0 or "
                  "later, or serve users who trust each other."}});
  }
  if (!hidden) {
    log.warning("who reads the daemon's command line can make it, and others, wait",
                {{"hint",
                  "Take a kernel with CONFIG_CHECKPOINT_RESTORE, or serve users who trust each "
                  "other."}});
  }
  const auto tell = [&] {
    log.info("serving", {{"directory", config.directory},
                         {"pid", getpid()},
                         {"sockets", directory->sockets_passed() ? "passed" : "made"},
                         {"version", MEMLEASE_VERSION}});
  };
  tell();
  if (const auto told = manager.ready(); !told.ok()) {
    log.warning(wire::message_of(told), {{"hint", wire::hint_of(told)}});
  }
  (*daemon)->tell_status();
  manager.start_watchdog([&daemon] { (*daemon)->probe(); });
  if (const std::string path = background.ready(config.directory); !path.empty()) {
    log.bound_file(path, kLogFileBytes);
    tell();  // to those who read the file
  }
  (*loop)->run();
  (void)manager.stopping();
  daemon->reset();
  log.info("ended");
  (void)manager.ended();
  return 0;
}

// What is wrong with the settings is not known as a setting: where the log would go is looked up in
// the flags, as our unit has it.
void print_error(const std::string& text, std::span<const char* const> arguments) {
  const bool journal = std::ranges::find(arguments, std::string_view("--log-format=journal"),
                                         [](const char* argument) {
                                           return std::string_view(argument);
                                         }) != arguments.end();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::fprintf(stderr, "%s%s\n", journal ? "<3>" : "", line.c_str());
  }
}

int run(std::span<const char* const> arguments) {
  block_sighup();
  std::error_code unknown;  // then a relative path stays one
  const CommandLine command_line{arguments, std::filesystem::current_path(unknown)};
  const Startup startup = configure(arguments, environment, command_line.folder);
  std::fputs(startup.output.c_str(), stdout);
  print_error(startup.error, arguments);
  if (!startup.config) {
    if (startup.exit_code != 0) {
      const auto service = ServiceEnvironment::take();
      if (service.ok()) refuse_at(service->sockets, -1);
    }
    return startup.exit_code;
  }
  if (!wire::hold_standard_descriptors()) {
    std::perror("memleased: /dev/null");
    return kExitRuntime;
  }
  Background background;
  if (startup.background) {
    if (const auto code = background.detach()) return *code;
  }
  return serve(*startup.config, command_line, background);
}

}  // namespace
}  // namespace memlease::server

int main(int argc, char** argv) {
  return memlease::server::run({argv, static_cast<std::size_t>(argc)});
}
