// Where a daemon is in the file system: one directory, with its sockets and its lock. Both sides
// and memleasectl must agree on these names. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memlease::wire {

inline constexpr const char* kAttachSocket = "attach.sock";    // SEQPACKET
inline constexpr const char* kControlSocket = "control.sock";  // STREAM
inline constexpr const char* kMetricsSocket = "metrics.sock";  // STREAM, if asked for
inline constexpr const char* kLockFile = "memleased.lock";

inline constexpr const char* kSystemDirectory = "/run/memlease";

// The directory of the calling process's user: <runtime_directory>/memlease, else
// /tmp/memlease-<effective uid>. `runtime_directory` is the value of XDG_RUNTIME_DIR, "" if it is
// not set; a relative one is ignored, as the XDG base directory specification says.
std::string user_directory(std::string_view runtime_directory);

// The bytes that a socket's address has for its path.
std::size_t max_socket_path_bytes();

// <directory>/<name>; kInvalidArgument if that is longer than a socket's path can be (107 bytes).
absl::StatusOr<std::string> socket_path(std::string_view directory, std::string_view name);

}  // namespace memlease::wire
