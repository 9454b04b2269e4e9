// Connecting to a daemon's socket, and making sure that it is a daemon that has a right to be
// there. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "wire/unique_fd.h"

namespace memlease::internal {

struct ConnectedSocket {
  wire::UniqueFd fd;  // non-blocking
  // Who listens, as the kernel says.
  pid_t daemon_pid = 0;
  uid_t daemon_uid = 0;
};

// To <directory>/<name>, of type SOCK_STREAM or SOCK_SEQPACKET; returns at once. kDaemonUnavailable
// where nobody listens; kDenied where the socket may not be used, or where the one who listens is
// neither root, nor this process's uid, nor the directory's owner. Whether the directory itself is
// to be trusted is up to check_directory().
absl::StatusOr<ConnectedSocket> connect_socket(const std::string& directory, std::string_view name,
                                               int type);

}  // namespace memlease::internal
