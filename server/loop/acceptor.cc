#include "server/loop/acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "server/loop/close_aside.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

constexpr std::chrono::milliseconds kPause{50};
constexpr std::chrono::milliseconds kMostForGone{1};

wire::UniqueFd open_reserve() { return wire::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// Who has closed before he was accepted reads no answer. After a flood that is the whole backlog.
bool has_gone(int connection) {
  pollfd peer{connection, 0, 0};
  return ::poll(&peer, 1, 0) == 1 && (peer.revents & POLLHUP) != 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::start(EventLoop* loop, wire::UniqueFd listener,
                                                          Accepted accepted,
                                                          Overloaded overloaded) {
  const int fd = listener.get();
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
    return wire::make_error(wire::ErrorCode::kInvalidArgument,
                            "the descriptor to accept connections from is not a listening socket",
                            "If systemd passes it, use ListenSequentialPacket= for attach.sock and "
                            "ListenStream= for control.sock.");
  }
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) {
    return wire::errno_error(wire::ErrorCode::kInternal, "O_NONBLOCK on a listening socket", errno);
  }
  // From here on nobody who connects can send descriptors (see ClientSocket); older kernels let
  // him. What else a unit of sockets may have asked for looks as they do.
  const int off = 0;
  for (const int comes_along : {SO_PASSRIGHTS, SO_PASSCRED, SO_PASSPIDFD, SO_PASSSEC}) {
    ::setsockopt(fd, SOL_SOCKET, comes_along, &off, sizeof off);
  }
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(loop, std::move(listener), std::move(accepted), std::move(overloaded)));
  auto added = loop->add(fd, EPOLLIN, [self = acceptor.get()](auto) { self->accept_one(); });
  if (!added.ok()) return added;
  return acceptor;
}

Acceptor::Acceptor(EventLoop* loop, wire::UniqueFd listener, Accepted accepted,
                   Overloaded overloaded)
    : loop_(loop),
      listener_(std::move(listener)),
      accepted_(std::move(accepted)),
      overloaded_(std::move(overloaded)),
      reserve_(open_reserve()) {}

Acceptor::~Acceptor() {
  loop_->remove(listener_.get());
  loop_->cancel(resume_timer_);
  close_aside(std::move(listener_));  // with what those have sent who have not been accepted
}

ClientSocket Acceptor::accept() const {
  return ClientSocket(
      wire::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
}

// One that is still there at each turn of the loop: who accepts more while a crowd connects lets
// all others wait.
void Acceptor::accept_one() {
  const auto end = EventLoop::Clock::now() + kMostForGone;
  do {
    ClientSocket connection = accept();
    if (!connection) return none_accepted(errno);
    if (!has_gone(connection.get())) return accepted_(std::move(connection));
  } while (EventLoop::Clock::now() < end);
}

void Acceptor::none_accepted(int error) {
  switch (error) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED:
      return;
    case EMFILE:
    case ENFILE:
      if (shed_one()) return;
      overloaded_({});
      break;
    default:
      break;
  }
  pause();
}

// False if even the reserve is of no help.
bool Acceptor::shed_one() {
  if (!reserve_) reserve_ = open_reserve();
  if (!reserve_) return false;
  reserve_.reset();
  if (ClientSocket connection = accept()) overloaded_(std::move(connection));
  reserve_ = open_reserve();
  return static_cast<bool>(reserve_);
}

// Leaves the listener alone for a while: it stays readable, so the loop would spin.
void Acceptor::pause() {
  loop_->modify(listener_.get(), 0);
  resume_timer_ = loop_->after(kPause, [this] { loop_->modify(listener_.get(), EPOLLIN); });
}

uid_t uid_of_peer(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const int got = ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return got == 0 ? peer.uid : static_cast<uid_t>(-1);
}

}  // namespace memlease::server
