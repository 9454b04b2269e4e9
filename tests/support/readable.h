// Is there something to read of a descriptor?
#pragma once

#include <poll.h>

namespace memlease::testing {

// Waits for it so long, and for ever with -1.
inline bool readable(int fd, int timeout_ms = 20'000) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) == 1;
}

}  // namespace memlease::testing
