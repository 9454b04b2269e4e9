// Sockets of the file system, for tests that speak on them themselves.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "wire/unique_fd.h"

namespace memlease::testing {

inline sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Without a descriptor, and with errno, if it fails. SOCK_NONBLOCK may be part of the type.
inline wire::UniqueFd connect_unix(const std::string& path, int type) {
  const sockaddr_un address = unix_address(path);
  wire::UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fd.reset();
  }
  return fd;
}

inline wire::UniqueFd bind_unix(const std::string& path, int type) {
  const sockaddr_un address = unix_address(path);
  wire::UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fd.reset();
  }
  return fd;
}

}  // namespace memlease::testing
