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
// Where the manager's queue is full, as anybody on the machine may fill it: room comes and goes.
constexpr std::chrono::milliseconds kAgain{20};

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

ServiceManager::~ServiceManager() {
  loop_.cancel(timer_);
  loop_.cancel(untold_timer_);
}

int ServiceManager::try_to_send(std::string_view lines, int flags) const {
  ssize_t sent = 0;
  do {
    sent = ::sendto(socket_.get(), lines.data(), lines.size(), flags | MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&address_), address_bytes_);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 ? 0 : errno;
}

absl::Status ServiceManager::send(std::string_view lines, int flags) const {
  return socket_ ? outcome(try_to_send(lines, flags)) : unusable_;
}

absl::Status ServiceManager::outcome(int error) {
  if (error == 0) return absl::OkStatus();
  return wire::errno_error(wire::ErrorCode::kInternal,
                           "cannot tell the service manager about this daemon", error,
                           "It may take the daemon for one that never got ready, or never ends.");
}

absl::Status ServiceManager::tell(std::string lines) {
  if (!socket_) return unusable_;
  if (untold_.empty()) {
    const int error = try_to_send(lines, MSG_DONTWAIT);
    if (error != EAGAIN) return outcome(error);
    untold_timer_ = loop_.after(kAgain, [this] { tell_the_untold(); });
  }
  untold_.push_back(std::move(lines));
  return absl::OkStatus();
}

// Else the manager would end the daemon as one that does not start, or reload.
void ServiceManager::tell_the_untold() {
  while (!untold_.empty() && try_to_send(untold_.front(), MSG_DONTWAIT) != EAGAIN) {
    untold_.pop_front();
  }
  if (!untold_.empty()) untold_timer_ = loop_.after(kAgain, [this] { tell_the_untold(); });
}

absl::Status ServiceManager::ready() { return tell("READY=1"); }

absl::Status ServiceManager::reloading() {
  return tell(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
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
  tell_of_life();
}

void ServiceManager::tell_of_life() {
  using std::chrono::milliseconds;
  const auto half =
      std::max(std::chrono::duration_cast<milliseconds>(watchdog_ / 2), milliseconds(1));
  if (try_to_send("WATCHDOG=1", MSG_DONTWAIT) == EAGAIN) {
    timer_ = loop_.after(std::min(kAgain, half), [this] { tell_of_life(); });
  } else {
    timer_ = loop_.after(half, [this] { feed_watchdog(); });
  }
}

}  // namespace memlease::server
