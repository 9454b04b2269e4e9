#include "server/config/service_environment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "server/config/to_number.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

constexpr int kFirstSocket = 3;  // SD_LISTEN_FDS_START
constexpr int kMostSockets = 64;

std::string take_variable(const char* name) {
  const char* const value = std::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  ::unsetenv(name);
  return taken;
}

// They stand between colons.
std::string take_name(std::string_view& names) {
  const std::size_t end = names.find(':');
  std::string name(names.substr(0, end));
  names.remove_prefix(end == std::string_view::npos ? names.size() : end + 1);
  return name;
}

absl::Status wrong_sockets(std::string_view what) {
  return wire::make_error(
      wire::ErrorCode::kInvalidArgument, what,
      "Let a socket unit pass the sockets, or start the daemon without LISTEN_PID.");
}

absl::StatusOr<std::vector<PassedSocket>> take_sockets() {
  const std::string pid = take_variable("LISTEN_PID");
  const std::string count_text = take_variable("LISTEN_FDS");
  const std::string names_text = take_variable("LISTEN_FDNAMES");
  std::vector<PassedSocket> sockets;
  // A parent may have left the variables that were meant for itself.
  if (to_number<std::int64_t>(pid) != ::getpid()) return sockets;
  const auto count = to_number<std::int64_t>(count_text);
  if (!count || *count < 0 || *count > kMostSockets) {
    return wrong_sockets(fmt::format("LISTEN_FDS is '{}', not a number of sockets", count_text));
  }
  std::string_view names = names_text;
  for (int fd = kFirstSocket; fd < kFirstSocket + *count; ++fd) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
      return wrong_sockets(fmt::format(
          "LISTEN_FDS says that {} sockets are passed, but descriptor {} is closed", *count, fd));
    }
    sockets.push_back({wire::UniqueFd(fd), take_name(names)});
  }
  return sockets;
}

}  // namespace

absl::StatusOr<ServiceEnvironment> ServiceEnvironment::take() {
  ServiceEnvironment environment;
  environment.notify_socket = take_variable("NOTIFY_SOCKET");
  const auto watchdog_us = to_number<std::int64_t>(take_variable("WATCHDOG_USEC"));
  const std::string watched = take_variable("WATCHDOG_PID");
  const bool for_us = watched.empty() || to_number<std::int64_t>(watched) == ::getpid();
  if (watchdog_us && *watchdog_us > 0 && for_us) {
    environment.watchdog = std::chrono::microseconds(*watchdog_us);
  }
  auto sockets = take_sockets();
  if (!sockets.ok()) return sockets.status();
  environment.sockets = *std::move(sockets);
  return environment;
}

}  // namespace memlease::server
