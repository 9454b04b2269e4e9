#include "client/channel/attach_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "client/socket/connect_socket.h"
#include "wire/place.h"

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<AttachSocket>> AttachSocket::connect(const std::string& directory) {
  std::unique_ptr<AttachSocket> made(new AttachSocket);
  const NoFork whole;  // from the descriptor's birth until the observer knows it
  auto connected = connect_socket(directory, wire::kAttachSocket, SOCK_SEQPACKET);
  if (!connected.ok()) return connected.status();
  made->file_ = wire::FileIdentity::of(connected->fd.get());
  made->fd_.store(connected->fd.release());
  return made;
}

bool AttachSocket::closed_by_program() const {
  const int fd = get();
  return fd >= 0 && wire::FileIdentity::of(fd) != file_;
}

void AttachSocket::close() {
  const bool ours = !closed_by_program();
  const int fd = fd_.exchange(-1);
  if (fd >= 0 && ours) ::close(fd);
}

bool has_ended(int socket) {
  char next = 0;
  const auto got = ::recv(socket, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR && errno != ENOMEM);
}

}  // namespace memlease::internal
