#include "client/channel/attach_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/socket/connect_socket.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

// 0: it is not open, or no socket.
std::uint64_t inode_of_socket(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) ? info.st_ino : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachSocket>> AttachSocket::connect(const std::string& directory) {
  std::unique_ptr<AttachSocket> made(new AttachSocket);
  const NoFork whole;  // from the descriptor's birth until the observer knows it
  auto connected = connect_socket(directory, wire::kAttachSocket, SOCK_SEQPACKET);
  if (!connected.ok()) return connected.status();
  made->inode_ = inode_of_socket(connected->fd.get());
  made->fd_.store(connected->fd.release());
  return made;
}

bool AttachSocket::closed_by_program() const {
  const int fd = get();
  return fd >= 0 && inode_of_socket(fd) != inode_;
}

void AttachSocket::close() {
  const bool ours = !closed_by_program();
  const int fd = fd_.exchange(-1);
  if (fd >= 0 && ours) ::close(fd);
}

}  // namespace memlease::internal
