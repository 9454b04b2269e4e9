#include "server/loop/service_manager.h"

#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

constexpr timeval kSendTimeout{5, 0};

std::uint64_t monotonic_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

}  // namespace

ServiceManager::ServiceManager(EventLoop& loop, const std::string& notify_socket,
                               std::chrono::microseconds watchdog)
    : loop_(loop), watchdog_(watchdog) {
  // Of the kinds of sockets that systemd may name, only these two are on the same machine.
  const bool usable = notify_socket.starts_with('/') || notify_socket.starts_with('@');
  if (notify_socket.empty()) return;
  if (!usable || notify_socket.size() >= sizeof address_.sun_path) {
    unusable_ = wire::make_error(
        wire::ErrorCode::kInvalidArgument,
        fmt::format("NOTIFY_SOCKET is '{}', neither a path nor an abstract socket's name, with at "
                    "most {} bytes: the service manager is told nothing",
                    notify_socket, sizeof address_.sun_path - 1),
        "Start the daemon by systemd, or without this variable.");
    return;
  }
  address_.sun_family = AF_UNIX;
  notify_socket.copy(address_.sun_path, notify_socket.size());
  address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + notify_socket.size());
  if (notify_socket.front() == '@') {
    address_.sun_path[0] = '\0';
  } else {
    ++address_bytes_;  // a path counts with its end
  }
  socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket_)
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
}

ServiceManager::~ServiceManager() { loop_.cancel(timer_); }

absl::Status ServiceManager::send(std::string_view lines, int flags) {
  if (!socket_) return unusable_;
  ssize_t sent = 0;
  do {
    sent = ::sendto(socket_.get(), lines.data(), lines.size(), flags | MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address_), address_bytes_);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  return wire::errno_error(wire::ErrorCode::kInternal,
                           "cannot tell the service manager about this daemon", errno,
                           "It may take the daemon for one that never got ready, or never ends.");
}

absl::Status ServiceManager::ready() { return send("READY=1", 0); }

absl::Status ServiceManager::reloading() {
  return send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()), 0);
}

absl::Status ServiceManager::stopping() {
  return send("STOPPING=1\nSTATUS=ending: memory goes back to the system", 0);
}

absl::Status ServiceManager::ended() { return send("STATUS=", 0); }

void ServiceManager::set_status(std::string_view line) {
  if (line == status_) return;
  if (send(fmt::format("STATUS={}", line), MSG_DONTWAIT).ok()) status_ = line;
}

void ServiceManager::start_watchdog(std::function<void()> probe) {
  if (!socket_ || watchdog_.count() == 0) return;
  probe_ = std::move(probe);
  feed_watchdog();
}

void ServiceManager::feed_watchdog() {
  probe_();
  // Refused only by a manager that has read nothing of ours for long: it misses no sign of life.
  (void)send("WATCHDOG=1", MSG_DONTWAIT);
  const auto half = std::chrono::duration_cast<std::chrono::milliseconds>(watchdog_ / 2);
  timer_ = loop_.after(std::max(half, std::chrono::milliseconds(1)), [this] { feed_watchdog(); });
}

}  // namespace memlease::server
