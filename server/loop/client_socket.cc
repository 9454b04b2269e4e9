#include "server/loop/client_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include "server/loop/close_aside.h"
#include "server/loop/thread_time.h"
#include "wire/frame_socket.h"

namespace memlease::server {
namespace {

// Of a processor.
constexpr std::chrono::milliseconds kMostTime{4};
constexpr std::chrono::milliseconds kMostTimeAtTheEnd{5};

}  // namespace

// With urgent bytes in their place among the others: looks pass over those that have none.
ClientSocket::ClientSocket(wire::UniqueFd socket) : socket_(std::move(socket)) {
  if (!socket_) return;  // errno says why
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
}

ClientSocket& ClientSocket::operator=(ClientSocket&& other) noexcept {
  if (this == &other) return *this;
  hang_up();
  socket_ = std::move(other.socket_);
  return *this;
}

ClientSocket::~ClientSocket() { hang_up(); }

// With unread messages closing would be a reset, which overtakes at the client what he was sent
// last.
void ClientSocket::hang_up() {
  if (!socket_) return;
  const SocketTime time;
  ::shutdown(socket_.get(), SHUT_RDWR);
  if (take_out_rest()) return socket_.reset();
  close_aside(std::move(socket_));
}

// False: something is left that must not be received, or takes long, or there is no end of it.
bool ClientSocket::take_out_rest() {
  int type = 0;
  socklen_t size = sizeof type;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_TYPE, &type, &size);
  const bool has_messages = type == SOCK_SEQPACKET;
  const int on = 1;  // so that an empty message is not taken for the end
  if (has_messages) ::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  std::array<char, 4096> bytes;
  const auto until = thread_time() + kMostTimeAtTheEnd;
  while (thread_time() < until) {
    if (has_messages) {
      const auto outcome = wire::receive_frame(socket_.get(), wire::Ancillary::kSender).outcome;
      if (outcome == wire::Received::Outcome::kEnd) return true;
      if (outcome == wire::Received::Outcome::kDescriptors) return false;
    } else if (const ssize_t count = receive(bytes); count <= 0) {
      return count == 0 || errno == ECONNRESET || errno == ENOTCONN;
    }
  }
  return false;
}

// Looking takes copies of the descriptors and gives them back at once: they are not the last ones.
ssize_t ClientSocket::receive(std::span<char> buffer) {
  const SocketTime time;
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t seen = ::recvmsg(socket_.get(), &message, MSG_PEEK);
  if (seen <= 0) return seen;
  if ((message.msg_flags & MSG_CTRUNC) == 0) return take(buffer.first(static_cast<size_t>(seen)));
  errno = EBADMSG;
  return -1;
}

// For each message that is taken the kernel goes through all who wait for room at the client's end.
// He can send single bytes, and have millions wait: so few are taken by one call.
ssize_t ClientSocket::take(std::span<char> bytes) {
  constexpr std::size_t kMostMessages = 64;
  const auto until = thread_time() + kMostTime;
  std::size_t taken = 0;
  while (taken < bytes.size() && (taken == 0 || thread_time() < until)) {
    const std::span<char> some =
        bytes.subspan(taken, std::min(kMostMessages, bytes.size() - taken));
    const ssize_t count = ::recv(socket_.get(), some.data(), some.size(), 0);
    if (count <= 0) return taken == 0 ? count : static_cast<ssize_t>(taken);
    taken += static_cast<std::size_t>(count);
  }
  return static_cast<ssize_t>(taken);
}

}  // namespace memlease::server
