#include "server/gate/relay.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "server/loop/thread_time.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

// How many bytes the socket has taken; nothing: its peer is gone.
std::optional<std::size_t> send_some(int socket, std::span<const char> bytes) {
  const SocketTime time;
  const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EINTR) return 0;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Relay>> Relay::start(EventLoop& loop, ClientSocket client,
                                                    wire::UniqueFd server, const GateLimits& limits,
                                                    Allowance& of_uid, Account& account,
                                                    Moved moved, Ended ended) {
  std::unique_ptr<Relay> relay(new Relay(loop, std::move(client), std::move(server), limits, of_uid,
                                         account, std::move(moved), std::move(ended)));
  if (relay->watch()) return relay;
  return wire::make_error(wire::ErrorCode::kInternal,
                          "the kernel has no memory to watch a connection",
                          "Close what takes the machine's memory, then connect again.");
}

Relay::Relay(EventLoop& loop, ClientSocket client, wire::UniqueFd server, const GateLimits& limits,
             Allowance& of_uid, Account& account, Moved moved, Ended ended)
    : loop_(loop),
      unread_(limits.unread),
      user_(account.uid()),
      moved_(std::move(moved)),
      ended_(std::move(ended)),
      meter_(limits.connection, of_uid, account),
      client_end_(std::move(client)),
      server_end_(std::move(server)) {}

Relay::~Relay() { forget(); }

void Relay::forget() {
  watch(client_, 0);
  watch(server_, 0);
  loop_.cancel(std::exchange(unread_timer_, {}));
}

void Relay::end(std::optional<Excess> excess) {
  forget();
  const Ended ended = std::move(ended_);
  ended(excess);  // this is gone, maybe
}

void Relay::deliver() {
  if (flush(replies_) && replies_.is_empty()) forward(replies_);
}

// Tries all there is to do, whichever socket is ready: a try costs less than the right question.
void Relay::on_ready() {
  if (!move() || !watch()) return end(excess_);
  watch_unread();
  moved_();
}

// False: the connection is over.
bool Relay::move() {
  if (!flush(replies_) || !flush(requests_)) return false;
  if (replies_.is_empty() && !replies_.at_end && !forward(replies_)) return false;
  const bool reads_on = replies_.is_empty() && requests_.is_empty() && !requests_.at_end;
  if (reads_on && !forward(requests_)) return false;
  return !(requests_.at_end && requests_.is_empty()) && !(replies_.at_end && replies_.is_empty());
}

// False: the receiver is gone.
bool Relay::flush(Direction& direction) {
  if (direction.is_empty()) return true;
  const auto count =
      send_some(direction.to.fd, std::span(direction.waiting).subspan(direction.sent));
  if (!count) return false;
  if (*count != 0 && &direction == &replies_) replies_moved_ = true;
  direction.sent += *count;
  if (direction.sent < direction.waiting.size()) return true;
  direction.sent = 0;
  std::string().swap(direction.waiting);  // idle connections keep nothing
  return true;
}

// One piece, so that others get their turn. False: the connection is over.
bool Relay::forward(Direction& direction) {
  std::array<char, kPieceBytes> piece;
  const ssize_t count = &direction == &requests_
                            ? client_end_.receive(piece)
                            : ::recv(direction.from.fd, piece.data(), piece.size(), 0);
  if (count < 0) {
    if (errno == ETIME) excess_ = Excess::kWaiters;
    return errno == EAGAIN || errno == EINTR;
  }
  direction.at_end = count == 0;
  const std::span<const char> bytes(piece.data(), static_cast<std::size_t>(count));
  if (!admit(direction, std::as_bytes(bytes))) return false;
  if (bytes.empty()) return true;
  const auto sent = send_some(direction.to.fd, bytes);
  if (!sent) return false;
  const auto rest = bytes.subspan(*sent);
  direction.waiting.assign(rest.begin(), rest.end());
  return true;
}

bool Relay::admit(const Direction& direction, std::span<const std::byte> bytes) {
  if (&direction == &replies_) {
    meter_.from_server(bytes);
  } else {
    excess_ = meter_.from_client(bytes, FrameMeter::Clock::now());
  }
  return !excess_;
}

// ---- What the loop is asked for.

bool Relay::watch() {
  const auto events = [](bool reads, bool writes) {
    return (reads ? std::uint32_t{EPOLLIN} : 0U) | (writes ? std::uint32_t{EPOLLOUT} : 0U);
  };
  const bool reads_requests = requests_.is_empty() && replies_.is_empty() && !requests_.at_end;
  const bool reads_replies = replies_.is_empty() && !replies_.at_end;
  return watch(client_, events(reads_requests, !replies_.is_empty())) &&
         watch(server_, events(reads_replies, !requests_.is_empty()));
}

// A socket that nothing is wanted of is not watched at all: epoll would go on to tell its end.
bool Relay::watch(Socket& socket, std::uint32_t events) {
  const std::uint32_t before = std::exchange(socket.watched, events);
  if (events == before) return true;
  if (events == 0) {
    loop_.remove(socket.fd);
  } else if (before == 0) {
    return loop_.add(socket.fd, events, [this](std::uint32_t) { on_ready(); }, user_).ok();
  } else {
    loop_.modify(socket.fd, events);
  }
  return true;
}

void Relay::watch_unread() {
  const bool waits = unread_timer_ != EventLoop::TimerId{};
  if (waits && (replies_.is_empty() || replies_moved_)) {
    loop_.cancel(std::exchange(unread_timer_, {}));
  }
  replies_moved_ = false;
  if (replies_.is_empty() || unread_timer_ != EventLoop::TimerId{}) return;
  unread_timer_ = loop_.after(
      unread_,
      [this] {
        unread_timer_ = {};
        end(Excess::kUnreadReplies);
      },
      user_);
}

}  // namespace memlease::server
