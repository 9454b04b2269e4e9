// The time that the calling thread has had of a processor: what it has made the kernel do counts,
// and what other threads have taken meanwhile does not.
#pragma once

#include <chrono>
#include <ctime>

namespace memlease::server {

inline std::chrono::nanoseconds thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace memlease::server
