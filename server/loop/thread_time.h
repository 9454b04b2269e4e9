// The time that the calling thread has had of a processor: what it has made the kernel do counts,
// and what other threads have taken meanwhile does not.
#pragma once

#include <chrono>
#include <ctime>
#include <utility>

namespace memlease::server {

inline std::chrono::nanoseconds thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// What of it the kernel takes for clients' sockets, which they can make long: by all that wait at
// their ends. Counted while one of these is there.
class SocketTime {
 public:
  SocketTime() : begin_(thread_time()) {}
  ~SocketTime() { taken_ += thread_time() - begin_; }
  SocketTime(const SocketTime&) = delete;
  SocketTime& operator=(const SocketTime&) = delete;
  std::chrono::nanoseconds so_far() const { return thread_time() - begin_; }

  // Of this thread, since the last call.
  static std::chrono::nanoseconds take() { return std::exchange(taken_, {}); }

 private:
  static inline thread_local std::chrono::nanoseconds taken_{0};
  const std::chrono::nanoseconds begin_;
};

}  // namespace memlease::server
