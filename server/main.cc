// memleased: owns arrays and leases them to processes. See docs/architecture.md.

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>

#include "server/config/background.h"
#include "server/config/configure.h"
#include "server/config/directory.h"
#include "server/daemon.h"
#include "server/loop/event_loop.h"
#include "server/rpc/library_log.h"
#include "server/telemetry/log.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

// Of the file that a daemon in the background logs to, and of the one before: it may lie in memory.
constexpr std::uint64_t kLogFileBytes = std::uint64_t{4} << 20;

int exit_code_of(const absl::Status& status) {
  return wire::code_of(status) == wire::ErrorCode::kBusy ? kExitBusy : kExitRuntime;
}

int fail(Log& log, const absl::Status& status) {
  log.error(wire::message_of(status), {{"hint", wire::hint_of(status)}});
  return exit_code_of(status);
}

// SIGTERM, SIGINT and SIGHUP as a descriptor. Blocked before any thread starts, so that all inherit
// it.
wire::UniqueFd block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return wire::UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// The usual soft limit is there for select(2), which nobody here calls; a connection costs two
// descriptors, a shared file one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int serve(const Config& config, Background& background) {
  Log log(config.log_level, config.log_format);
  const LibraryLog library_log(log);
  raise_descriptor_limit();
  // Tokens live in this process's memory.
  prctl(PR_SET_DUMPABLE, 0);
  umask(0077);
  const wire::UniqueFd signals = block_signals();
  auto directory = Directory::lock(config.directory);
  if (!directory.ok()) return fail(log, directory.status());
  auto loop = EventLoop::create();
  if (!loop.ok()) return fail(log, loop.status());
  auto daemon = Daemon::start(config, *directory, **loop, log);
  if (!daemon.ok()) return fail(log, daemon.status());
  const auto added = (*loop)->add(signals.get(), EPOLLIN, [&](std::uint32_t) {
    signalfd_siginfo info{};
    while (read(signals.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGHUP) {
        log.info("SIGHUP ignored: settings are read at the start");
      } else {
        (*daemon)->drain();
      }
    }
  });
  if (!added.ok()) return fail(log, added);
  log.info("serving", {{"directory", config.directory}, {"pid", getpid()}});
  sd_notify(0, "READY=1");
  if (const std::string path = background.ready(config.directory); !path.empty()) {
    log.bound_file(path, kLogFileBytes);
  }
  (*loop)->run();
  sd_notify(0, "STOPPING=1");
  daemon->reset();
  log.info("ended");
  return 0;
}

int run(std::span<const char* const> arguments) {
  const Startup startup = configure(arguments, [](const char* name) { return std::getenv(name); });
  std::fputs(startup.output.c_str(), stdout);
  std::fputs(startup.error.c_str(), stderr);
  if (!startup.config) return startup.exit_code;
  if (!open_standard_descriptors()) {
    std::perror("memleased: /dev/null");
    return kExitRuntime;
  }
  Background background;
  if (startup.background) {
    if (const auto code = background.detach()) return *code;
  }
  return serve(*startup.config, background);
}

}  // namespace
}  // namespace memlease::server

int main(int argc, char** argv) {
  return memlease::server::run({argv, static_cast<std::size_t>(argc)});
}
