// One frame in, one frame out, on a SEQPACKET socket: the system calls that both sides of the
// attach channel share. Nothing here waits; a descriptor that arrives is owned at once, and where
// none must come none is received: who closes the last one of a socket may have to wait.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "wire/attach_frame.h"
#include "wire/unique_fd.h"

namespace memlease::wire {

// Sends all or nothing; passes `fds` along, kMaxFetchedFiles at most. 0 or errno; EAGAIN if the
// peer has left too much unread. Raises no SIGPIPE.
int send_frame(int socket, std::span<const std::byte> frame, std::span<const int> fds = {});

struct Received {
  enum class Outcome {
    kFrame,
    kNothing,      // no message waits
    kEnd,          // the peer has closed, or the connection is broken
    kMisfit,       // a message that no frame can be: too long, or with too many descriptors
    kDescriptors,  // the next message has descriptors that must not come, and goes on waiting
  };
  Outcome outcome = Outcome::kNothing;
  std::size_t size_bytes = 0;
  std::optional<ucred> sender;  // as the kernel stamped it; only if expected
  UniqueFd sender_process;      // a pidfd of the same process, if expected; Linux 6.5
  std::vector<UniqueFd> fds;
  bool fds_lost = false;  // more came along, and this process had no numbers free for them
  std::span<const std::byte> bytes() const { return std::span(buffer).first(size_bytes); }
  // One byte more than a frame may have, so that the parser sees a frame that is too long.
  std::array<std::byte, kMaxFrameBytes + 1> buffer;
};

// What may come with a frame, beside its bytes. Who expects a sender has set SO_PASSCRED.
enum class Ancillary { kSender, kSenderProcess, kFiles };

Received receive_frame(int socket, Ancillary expected);

}  // namespace memlease::wire
