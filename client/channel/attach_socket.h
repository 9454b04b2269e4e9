// The socket of the attach channel, which a forked child does not share: its copy is closed there,
// also in the middle of a handshake.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/session/fork_guard.h"
#include "wire/own_fd.h"

namespace memlease::internal {

// Thread-safe.
class AttachSocket {
 public:
  // Does not wait. Errors: those of connect_socket().
  static absl::StatusOr<std::unique_ptr<AttachSocket>> connect(const std::string& directory);
  ~AttachSocket() { close(); }
  AttachSocket(const AttachSocket&) = delete;
  AttachSocket& operator=(const AttachSocket&) = delete;

  // -1 in a forked child.
  int get() const { return fd_.load(); }
  // The program has closed the descriptor, which is nobody's or another file's now.
  bool closed_by_program() const;

 private:
  AttachSocket() = default;
  void close();

  std::atomic<int> fd_{-1};
  wire::FileIdentity file_;
  const ForkObserver observer_{[this] { close(); }};
};

// Whether the daemon's end of it is gone, where poll(2) cannot tell: it asks for no descriptor
// where RLIMIT_NOFILE is 0, as in a sandbox.
bool has_ended(int socket);

}  // namespace memlease::internal
