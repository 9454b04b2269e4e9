#include "client/socket/connect_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "client/socket/directory.h"
#include "fmt/format.h"
#include "wire/descriptor_limit.h"
#include "wire/error.h"
#include "wire/place.h"
#include "wire/standard_descriptors.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

// Whoever it is up to: the members of a group, where that may connect.
std::string who_may(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || (info.st_mode & S_IWGRP) == 0) return ": ask its owner";
  std::array<char, 1024> text{};
  group entry{};
  group* found = nullptr;
  ::getgrgid_r(info.st_gid, &entry, text.data(), text.size(), &found);
  const std::string name = found != nullptr ? found->gr_name : std::to_string(info.st_gid);
  return fmt::format(
      ", the members of the group {0}: root adds a user by usermod -aG {0} USER, who "
      "then logs in again",
      name);
}

absl::Status connect_error(const std::string& path, int error) {
  const std::string what = fmt::format("cannot connect to {}", path);
  if (error == EACCES || error == EPERM) {
    return wire::errno_error(
        ErrorCode::kDenied, what, error,
        fmt::format("The daemon serves other users{}. Or run one of your own, with memleased or by "
                    "MEMLEASE_DIR=DIRECTORY.",
                    who_may(path)));
  }
  if (error == EAGAIN) {
    return wire::make_error(ErrorCode::kBusy, what + ": its queue of connections is full",
                            "The daemon is stopped or overloaded; try again, or restart it.");
  }
  return wire::errno_error(ErrorCode::kDaemonUnavailable, what, error,
                           "No daemon runs there. Start one: memleased.");
}

absl::Status no_descriptor(const std::string& what, int error) {
  return wire::errno_error(ErrorCode::kOutOfMemory, what, error,
                           "Close files, or " + wire::raise_descriptor_limit() + ".");
}

std::optional<uid_t> owner_of(const std::string& directory) {
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0) return std::nullopt;
  return info.st_uid;
}

absl::Status check_peer(const SocketFile& file, const ucred& peer) {
  if (peer.uid == 0 || peer.uid == ::geteuid() || peer.uid == file.directory_owner) {
    return absl::OkStatus();
  }
  return wire::make_error(
      ErrorCode::kDenied,
      fmt::format("uid {} (pid {}) listens in {}, and is neither root, nor you, nor its owner",
                  peer.uid, peer.pid, file.path.substr(0, file.path.rfind('/'))),
      "This may be a false daemon: look at who made the sockets.");
}

// 0, or errno.
int connect_to(int socket, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const bool ok =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  return ok ? 0 : errno;
}

// By the file, which no unlink(2) takes away, else by its name. 0, or errno.
int connect_to(int socket, const SocketFile& file) {
  int error = ENOENT;
  if (const int fd = file.fd.get(); fd >= 0)
    error = connect_to(socket, fmt::format("/proc/self/fd/{}", fd));
  return error == ENOENT ? connect_to(socket, file.path) : error;
}

}  // namespace

absl::StatusOr<SocketFile> find_socket(const std::string& directory, std::string_view name) {
  auto path = wire::socket_path(directory, name);
  if (!path.ok()) return path.status();
  wire::hold_standard_descriptors();
  wire::UniqueFd fd(::open(path->c_str(), O_PATH | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    const bool full = error == EMFILE || error == ENFILE;
    return full ? no_descriptor("cannot open " + *path, error) : connect_error(*path, error);
  }
  return SocketFile{*std::move(path), wire::OwnFd(std::move(fd)), owner_of(directory)};
}

absl::StatusOr<ConnectedSocket> connect_socket(const std::string& directory, std::string_view name,
                                               int type) {
  auto path = wire::socket_path(directory, name);
  if (!path.ok()) return path.status();
  return connect_socket(SocketFile{*std::move(path), {}, owner_of(directory)}, type);
}

absl::StatusOr<ConnectedSocket> connect_socket(const SocketFile& file, int type) {
  wire::hold_standard_descriptors();
  wire::UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return no_descriptor("cannot make a socket", errno);
  if (const int error = connect_to(fd.get(), file); error != 0) {
    return connect_error(file.path, error);
  }
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return wire::errno_error(ErrorCode::kInternal, "cannot ask who listens at " + file.path, errno);
  }
  if (auto trusted = check_peer(file, peer); !trusted.ok()) return trusted;
  return ConnectedSocket{std::move(fd), peer.pid, peer.uid};
}

}  // namespace memlease::internal
