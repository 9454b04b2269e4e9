#include "wire/frame_socket.h"

#include <sys/uio.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#ifndef SCM_PIDFD  // Linux 6.5
#define SCM_PIDFD 0x04
#endif

namespace memlease::wire {
namespace {

// No room for what must not come: the kernel then closes it.
constexpr std::size_t room_for(Ancillary expected) {
  switch (expected) {
    case Ancillary::kSender:
      return CMSG_SPACE(sizeof(ucred));
    case Ancillary::kSenderProcess:
      return CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(sizeof(int));
    case Ancillary::kFiles:
      return CMSG_SPACE(kMaxFetchedFiles * sizeof(int));
  }
  return 0;
}

// Takes what came along into `received`. False if it is not what may come.
bool take_ancillary(msghdr& message, Ancillary expected, Received& received) {
  bool fits = true;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
      std::memcpy(&received.sender.emplace(), CMSG_DATA(c), sizeof(ucred));
      continue;
    }
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_PIDFD) {
      int fd = -1;  // stays negative, with a reason, where the kernel could not make one
      std::memcpy(&fd, CMSG_DATA(c), sizeof(int));
      if (fd >= 0) received.sender_process.reset(fd);
      continue;
    }
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof(int));
      UniqueFd owned(fd);
      if (expected == Ancillary::kFiles) {
        received.fds.push_back(std::move(owned));
      } else {
        fits = false;
      }
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) == 0) return fits;
  // There was room for them.
  received.fds_lost = expected == Ancillary::kFiles && received.fds.size() < kMaxFetchedFiles;
  return fits && received.fds_lost;
}

}  // namespace

int send_frame(int socket, std::span<const std::byte> frame, std::span<const int> fds) {
  assert(fds.size() <= kMaxFetchedFiles);
  iovec part{const_cast<std::byte*>(frame.data()), frame.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, room_for(Ancillary::kFiles)> control{};
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Received receive_frame(int socket, Ancillary expected) {
  Received received;
  iovec part{received.buffer.data(), received.buffer.size()};
  constexpr std::size_t kMostRoom =
      std::max(room_for(Ancillary::kSenderProcess), room_for(Ancillary::kFiles));
  alignas(cmsghdr) std::array<char, kMostRoom> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = room_for(expected);
  // A reset is told once, before what the peer had said; that still waits behind it.
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) {
    const bool nothing = errno == EAGAIN || errno == EWOULDBLOCK;
    received.outcome = nothing ? Received::Outcome::kNothing : Received::Outcome::kEnd;
    return received;
  }
  received.size_bytes = static_cast<std::size_t>(size);
  const bool fits = take_ancillary(message, expected, received);
  if (!fits || (message.msg_flags & MSG_TRUNC) != 0) {
    received.outcome = Received::Outcome::kMisfit;
  } else if (size == 0 && !received.sender) {
    received.outcome = Received::Outcome::kEnd;  // an empty message would name its sender
  } else {
    received.outcome = Received::Outcome::kFrame;
  }
  return received;
}

void close_with(UniqueFd socket, std::span<const std::byte> last_word) {
  if (!last_word.empty()) send_frame(socket.get(), last_word);
  // Closing over unread messages would be a reset, which overtakes the last word at the peer.
  ::shutdown(socket.get(), SHUT_RDWR);
  while (receive_frame(socket.get(), Ancillary::kSender).outcome != Received::Outcome::kEnd) {
  }
}

}  // namespace memlease::wire
