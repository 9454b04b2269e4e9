// Several processes that measure together: they wait for each other at a barrier and hand their
// figures back through a shared page. A client may not be used over a fork, so the processes are
// forked first and connect for themselves.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <functional>
#include <vector>

#include "wire/shared_word.h"

namespace memlease::bench {

// Lives in memory that all processes of the benchmark map.
struct SharedPage {
  static constexpr int kValues = 64;
  static constexpr int kWords = 512;  // 4 KiB

  pthread_barrier_t barrier;
  double values[kValues];  // of whoever has a figure for the others
  alignas(64) wire::Word ping;
  alignas(64) wire::Word pong;
  alignas(64) wire::HalfWord futex_ping;
  alignas(64) wire::HalfWord futex_pong;
  alignas(64) std::uint64_t payload[kWords];

  void meet() { pthread_barrier_wait(&barrier); }
};

// Never unmapped. `meeting` processes meet at its barrier.
SharedPage& new_shared_page(unsigned meeting);

// Processes of fn(0) .. fn(count-1). The destructor waits for them, and ends this program with
// status 1 if one of them failed.
class Processes {
 public:
  Processes(int count, const std::function<void(int)>& fn);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t pid(int index) const { return pids_.at(static_cast<std::size_t>(index)); }

 private:
  std::vector<pid_t> pids_;
};

// Runs a child until it ends. True if it ended well.
bool wait_for_end(pid_t pid);

}  // namespace memlease::bench
