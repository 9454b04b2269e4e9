// Connecting to a daemon's socket, and making sure that it is a daemon that has a right to be
// there. Thread-safe, but for changes of one SocketFile.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "wire/own_fd.h"
#include "wire/unique_fd.h"

namespace memlease::internal {

struct ConnectedSocket {
  wire::UniqueFd fd;  // non-blocking
  // Who listens, as the kernel says.
  pid_t daemon_pid = 0;
  uid_t daemon_uid = 0;
};

// To <directory>/<name>, of type SOCK_STREAM or SOCK_SEQPACKET; returns at once. kDaemonUnavailable
// where nobody listens; kBusy where too many wait to be accepted; kDenied where the socket may not
// be used, or where the one who listens is neither root, nor this process's uid, nor the
// directory's owner. Whether the directory itself is to be trusted is up to check_directory().
absl::StatusOr<ConnectedSocket> connect_socket(const std::string& directory, std::string_view name,
                                               int type);

// A socket's file that is kept: it leads to who listens there, and to nobody else, whatever becomes
// of its name. Where its descriptor was closed, or /proc is not mounted, the name counts again.
struct SocketFile {
  std::string path;                      // its name when it was found
  wire::OwnFd fd;                        // O_PATH
  std::optional<uid_t> directory_owner;  // who owned the directory then
};

// <directory>/<name>; neither connects nor waits. kDaemonUnavailable where there is no such file,
// kDenied where the directory may not be searched, kOutOfMemory where no descriptor is free.
absl::StatusOr<SocketFile> find_socket(const std::string& directory, std::string_view name);

// As above, to a socket that was found. The directory's owner is the one of that time.
absl::StatusOr<ConnectedSocket> connect_socket(const SocketFile& file, int type);

}  // namespace memlease::internal
