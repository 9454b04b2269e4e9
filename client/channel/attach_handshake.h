// The client's side of the attach handshake, and how it waits for the daemon's frames. Called by
// AttachClient, by one thread at a time for each socket. Both functions block until the deadline at
// most and take no lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/session/interrupt.h"
#include "wire/attach_frame.h"
#include "wire/frame_socket.h"
#include "wire/unique_fd.h"

namespace memlease::internal {

using Deadline = std::chrono::steady_clock::time_point;

// Makes this process a session, on a socket that has just been connected. `path` is for messages.
// Errors as of AttachClient::connect(), and kBusy if the daemon wants to be asked again; after any
// of them the socket is of no more use, and the caller closes it.
absl::StatusOr<wire::WelcomeFrame> shake_hands(int socket, const std::string& path,
                                               Deadline deadline, InterruptCheck interrupt);

struct Reply {
  wire::Frame frame;
  std::uint16_t protocol = 0;  // that it is written in
  std::vector<wire::UniqueFd> fds;
  bool fds_lost = false;  // as of wire::Received
};
// The daemon's next frame, also an ERROR, which is no error here. `interrupt` is asked every
// kInterruptInterval and after a signal. DaemonLost at the connection's end, Timeout at the
// deadline, InvalidArgument or VersionSkew for what is no frame, or what `interrupt` says.
absl::StatusOr<Reply> await_reply(int socket, Deadline deadline, InterruptCheck interrupt);

}  // namespace memlease::internal
