// Memory for the moment in which there is none. Whoever finds none gives it away and tries again,
// so that what has begun comes to its end; nothing new begins until it is there again. What gives
// it away is operator new's handler, and what malloc() is in this program where gRPC is its own.
#pragma once

#include <cstddef>

namespace memlease::server {

// One in a process. Thread-safe, without locks.
class MemoryReserve {
 public:
  // Address space alone: nobody touches it. A call takes some kilobytes, a page of a list two
  // megabytes, and a thread that gRPC begins meanwhile a stack of eight.
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  MemoryReserve();
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  // Whether something new may begin. Takes the reserve again if it can be had.
  bool is_there();
  // False: it has been given away already. Allocates nothing.
  static bool give_away() noexcept;
};

}  // namespace memlease::server
