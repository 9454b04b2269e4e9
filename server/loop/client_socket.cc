#include "server/loop/client_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "server/loop/close_aside.h"
#include "server/loop/thread_time.h"
#include "wire/frame_socket.h"

namespace memlease::server {
namespace {

// Of a processor, for what one call takes.
constexpr std::chrono::milliseconds kMostTime{1};
// For what nobody wants to know any more.
constexpr int kMostRest = 16;

}  // namespace

// With room for one piece of a message: splice() takes no more from a socket then.
class ClientSocket::Pipe {
 public:
  // The calling thread's, while one of its sockets has it.
  static std::shared_ptr<const Pipe> of_thread() {
    static thread_local std::weak_ptr<const Pipe> last;
    auto pipe = last.lock();
    if (!pipe) last = pipe = std::make_shared<const Pipe>();
    return pipe;
  }

  Pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    from_.reset(ends[0]);
    to_.reset(ends[1]);
    ::fcntl(to_.get(), F_SETPIPE_SZ, 1);  // rounded up to a page
  }

  // As recv().
  ssize_t take(int socket, std::span<char> bytes) const {
    const ssize_t count =
        ::splice(socket, nullptr, to_.get(), nullptr, bytes.size(), SPLICE_F_NONBLOCK);
    for (ssize_t read = 0; read < count;) {
      const auto left = bytes.subspan(static_cast<std::size_t>(read));
      const ssize_t some = ::read(from_.get(), left.data(), static_cast<std::size_t>(count - read));
      if (some < 0 && errno != EINTR) return -1;
      read += std::max<ssize_t>(some, 0);
    }
    return count;
  }

 private:
  wire::UniqueFd from_, to_;
};

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
  pipe_ = std::move(other.pipe_);
  too_long_ = other.too_long_;
  is_given_up_ = std::exchange(other.is_given_up_, false);
  return *this;
}

ClientSocket::~ClientSocket() { hang_up(); }

// With unread messages closing would be a reset, which overtakes at the client what he was sent
// last.
void ClientSocket::hang_up() {
  if (!socket_) return;
  const SocketTime time;
  if (!is_given_up_) {
    ::shutdown(socket_.get(), SHUT_RDWR);
    if (time.so_far() < kMostTime && take_out_rest()) return socket_.reset();
  }
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
  const auto until = thread_time() + kMostTime;
  for (int i = 0; i < kMostRest && thread_time() < until && !is_given_up_; ++i) {
    if (has_messages) {
      const auto outcome = wire::receive_frame(socket_.get(), wire::Ancillary::kSender).outcome;
      if (outcome == wire::Received::Outcome::kEnd) return true;
      if (outcome == wire::Received::Outcome::kDescriptors) return false;
    } else if (const ssize_t count = look_and_take(bytes); count <= 0) {
      return count == 0 || errno == ECONNRESET || errno == ENOTCONN;
    }
  }
  return false;
}

ssize_t ClientSocket::receive(std::span<char> buffer) {
  const SocketTime time;
  if (!is_given_up_) return look_and_take(buffer);
  errno = ETIME;
  return -1;
}

// Looking takes copies of the descriptors and gives them back at once: they are not the last ones.
ssize_t ClientSocket::look_and_take(std::span<char> buffer) {
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
// He can send single bytes, and have millions wait: so one message is taken by one call.
ssize_t ClientSocket::take(std::span<char> bytes) {
  if (!pipe_) pipe_ = Pipe::of_thread();
  std::size_t taken = 0;
  const auto begin = thread_time();
  for (auto now = begin; taken < bytes.size() && now - begin < kMostTime && !is_given_up_;) {
    const ssize_t count = pipe_->take(socket_.get(), bytes.subspan(taken));
    if (count <= 0) return taken == 0 ? count : static_cast<ssize_t>(taken);
    taken += static_cast<std::size_t>(count);
    const auto before = std::exchange(now, thread_time());
    took(now - before);
  }
  return static_cast<ssize_t>(taken);
}

}  // namespace memlease::server
