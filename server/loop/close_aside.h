// Closes a descriptor without waiting for it. The kernel lets the last one who closes a TCP socket
// with SO_LINGER wait until its peer has taken what was sent, or the time that its owner has chosen
// is over; and who closes a Unix socket closes all that was sent to it and not received.
#pragma once

#include "wire/unique_fd.h"

namespace memlease::server {

// On any thread. `fd` is closed soon after, by threads that last as long as there is something to
// close; where the daemon gets none, when the next one is given. On kernels before 5.9 a socket
// that waits holds up what is given after it.
void close_aside(wire::UniqueFd fd);

}  // namespace memlease::server
