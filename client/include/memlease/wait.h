// Waiting for several arrays at once. Standard library only, C++17.
#pragma once

#include <memlease/array.h>
#include <memlease/timeout.h>
#include <memlease/version.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memlease {

struct Awaited {
  Array array;
  std::uint64_t newer_than = 0;  // such as Follower::last()
};

// Waits until a version above `newer_than` can be read, of any of the arrays, of one daemon or of
// several; returns the places in `all` of those. Ready is also what a read would not wait for
// because it would throw, as Withdrawn. None: the timeout has passed (default: no end), or `all` is
// empty. Throws what Array::read() throws before it waits, and DaemonLost. Takes no lease. Beyond
// 64 arrays it looks at them a thousand times a second.
MEMLEASE_API std::vector<std::size_t> wait(const std::vector<Awaited>& all, Timeout timeout = {});

}  // namespace memlease
