// Tells the waits of this process (client/session/wait_news.h) when a connection has ended, by a
// thread that sleeps in poll(2) for as long as somebody waits. The thread takes no lock and knows
// of the connection its descriptor's number alone: so nobody waits for its end, and a fork may meet
// it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

namespace memlease::internal {

// How often it looks whether somebody still waits: longer than a wait sleeps at a time.
inline constexpr std::chrono::seconds kEndWatchInterval{3};

class EndWatch {
 public:
  explicit EndWatch(int socket) : shared_(std::make_shared<Shared>(socket)) {}
  // The socket has been shut down: so the thread wakes up before another file gets its number.
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  // From now on for kEndWatchInterval at least. False if it does not watch: there is no thread to
  // be had, or the connection has ended.
  bool watch();

 private:
  enum class State { kNone, kAsked, kIdle, kOver };
  struct Shared {
    explicit Shared(int fd) : socket(fd) {}
    const int socket;
    std::atomic<State> state{State::kNone};
  };
  static void run(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace memlease::internal
