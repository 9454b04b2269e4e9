// The daemon's control socket as the beginning of a session found it: the file itself is kept, so
// that calls reach the session's daemon as long as it listens, whoever removes, moves or replaces
// its directory or its socket. A forked child does not share it. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/session/fork_guard.h"
#include "client/socket/connect_socket.h"

namespace memlease::internal {

class ControlSocket {
 public:
  // <directory>/control.sock. Neither connects nor waits. Errors: those of find_socket().
  static absl::StatusOr<std::unique_ptr<const ControlSocket>> find(const std::string& directory);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // Does not wait. Errors: those of connect_socket().
  absl::StatusOr<ConnectedSocket> connect() const { return connect_socket(file_, SOCK_STREAM); }

  // Where it was found, for messages.
  std::string directory() const { return file_.path.substr(0, file_.path.rfind('/')); }
  // No other one of this process has it, nor will.
  std::uint64_t number() const { return number_; }

 private:
  ControlSocket();

  const std::uint64_t number_;
  SocketFile file_;
  const ForkObserver observer_{[this] { file_.fd.reset(); }};
};

}  // namespace memlease::internal
