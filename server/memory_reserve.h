// Memory for the moment in which there is none. Whoever finds none gives it away and tries again,
// so that what has begun comes to its end; nothing new begins until it is there again. What gives
// it away is operator new's handler, and what malloc() and mmap() are in a program that links
// server/wrapped_malloc.cc.
#pragma once

#include <cstddef>

namespace memlease::server {

// One in a process. Thread-safe.
class MemoryReserve {
 public:
  // Address space alone: nobody touches it. A call takes some kilobytes, a page of a list two
  // megabytes, a thread that gRPC begins meanwhile kStackBytes.
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr std::size_t kStackBytes = std::size_t{1} << 20;

  // Threads have smaller stacks from here on, and malloc() few arenas, which would take the
  // reserve.
  MemoryReserve();
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  // Whether something new may begin. Takes the reserve again if it can be had.
  bool is_there();
  // For whoever has found no memory: whether to try again, as the reserve has been given away, now
  // or since this thread asked last. Allocates nothing.
  static bool give_away() noexcept;
};

}  // namespace memlease::server
