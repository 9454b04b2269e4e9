// A user whose sockets took the kernel long, so that the loop has him rest.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "server/loop/event_loop.h"
#include "server/loop/thread_time.h"

namespace memlease::testing {

// For most of a second. On the loop's thread, or where no loop runs.
inline void make_rest(server::EventLoop& loop, uid_t user) {
  loop.run_for(user, [](bool /*rests*/) {
    const server::SocketTime time;
    while (time.so_far() < std::chrono::milliseconds(100)) continue;
  });
}

}  // namespace memlease::testing
