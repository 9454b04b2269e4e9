// The client's side of the attach handshake, and how it waits for the daemon's frames.
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

// `path` is for messages. Errors as of AttachClient::connect().
absl::StatusOr<wire::WelcomeFrame> shake_hands(int socket, const std::string& path,
                                               Deadline deadline, InterruptCheck interrupt);

struct Reply {
  wire::Frame frame;
  std::uint16_t protocol = 0;  // that it is written in
  std::vector<wire::UniqueFd> fds;
  bool fds_lost = false;  // as of wire::Received
};
// The daemon's next frame, an ERROR among them. DaemonLost at the connection's end, Timeout at the
// deadline, InvalidArgument or VersionSkew for what is no frame, or what `interrupt` says.
absl::StatusOr<Reply> await_reply(int socket, Deadline deadline, InterruptCheck interrupt);

}  // namespace memlease::internal
