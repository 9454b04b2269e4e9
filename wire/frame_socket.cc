#include "wire/frame_socket.h"

#include <sys/uio.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#ifndef SCM_PIDFD  // Linux 6.5; Debian 12's headers are older than the kernels it runs on
#define SCM_PIDFD 0x04
#endif
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

namespace memlease::wire {
namespace {

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

// As recvmsg(). A reset is told once, before what the peer had said; that still waits behind it.
ssize_t receive(int socket, msghdr& message, int flags) {
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  return size;
}

// Looks at the next message, as recvmsg() with its result. There is no room for descriptors: the
// kernel tells that, and closes the copies that it made to look, which are not the last ones.
ssize_t look(int socket, msghdr message, bool& has_descriptors) {
  alignas(cmsghdr) std::array<char, room_for(Ancillary::kSender)> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = receive(socket, message, MSG_PEEK);
  has_descriptors = size >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
  return size;
}

// Asked for only while a message is received that has been looked at, as pidfds look like
// descriptors from outside.
void stamp_with_pidfds(int socket, int on) {
  ::setsockopt(socket, SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on);
}

// Takes what came along into `received`. False if there was more than may come.
bool take_ancillary(msghdr& message, Ancillary expected, Received& received) {
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
      received.fds.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) == 0) return true;
  // There was room for them.
  received.fds_lost = expected == Ancillary::kFiles && received.fds.size() < kMaxFetchedFiles;
  return received.fds_lost;
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
  ssize_t size = 0;
  if (expected != Ancillary::kFiles) {
    bool has_descriptors = false;
    size = look(socket, message, has_descriptors);
    if (has_descriptors) {
      received.outcome = Received::Outcome::kDescriptors;
      return received;
    }
  }
  if (size >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = room_for(expected);
    const bool with_pidfd = expected == Ancillary::kSenderProcess;
    if (with_pidfd) stamp_with_pidfds(socket, 1);
    size = receive(socket, message, 0);
    if (with_pidfd) stamp_with_pidfds(socket, 0);
  }
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

}  // namespace memlease::wire
