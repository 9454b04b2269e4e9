#include "client/socket/connect_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/socket/directory.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

absl::Status connect_error(const std::string& path, int error) {
  const std::string what = fmt::format("cannot connect to {}", path);
  if (error == EACCES || error == EPERM) {
    return wire::errno_error(ErrorCode::kDenied, what, error,
                             "The daemon serves other users: ask its owner, or run one of your "
                             "own, with memleased or by "
                             "MEMLEASE_DIR=DIRECTORY.");
  }
  if (error == EAGAIN) {
    return wire::make_error(ErrorCode::kDaemonUnavailable,
                            what + ": its queue of connections is full",
                            "The daemon is stopped or overloaded; try again, or restart it.");
  }
  return wire::errno_error(ErrorCode::kDaemonUnavailable, what, error,
                           "No daemon runs there. Start one: memleased.");
}

absl::Status check_peer(const std::string& directory, const ucred& peer) {
  struct stat info{};
  const bool known = ::stat(directory.c_str(), &info) == 0;
  if (peer.uid == 0 || peer.uid == ::geteuid() || (known && info.st_uid == peer.uid)) {
    return absl::OkStatus();
  }
  return wire::make_error(
      ErrorCode::kDenied,
      fmt::format("uid {} (pid {}) listens in {}, and is neither root, nor you, nor its owner",
                  peer.uid, peer.pid, directory),
      "This may be a false daemon: look at who made the sockets.");
}

}  // namespace

absl::StatusOr<ConnectedSocket> connect_socket(const std::string& directory, std::string_view name,
                                               int type) {
  const auto path = wire::socket_path(directory, name);
  if (!path.ok()) return path.status();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path->c_str(), path->size() + 1);
  wire::UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return wire::errno_error(ErrorCode::kOutOfMemory, "cannot make a socket", errno,
                             "Close files, or raise the limit (ulimit -n).");
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return connect_error(*path, errno);
  }
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return wire::errno_error(ErrorCode::kInternal, "cannot ask who listens at " + *path, errno);
  }
  if (auto trusted = check_peer(directory, peer); !trusted.ok()) return trusted;
  return ConnectedSocket{std::move(fd), peer.pid, peer.uid};
}

}  // namespace memlease::internal
