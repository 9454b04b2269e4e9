// Threads that sleep on a word.
#pragma once

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "wire/crowd.h"
#include "wire/futex.h"

namespace memlease::wire {

// All of them sleep once it is made.
class Sleepers {
 public:
  explicit Sleepers(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        const FutexWait wait{&bed_, 0};
        EXPECT_EQ(futex_wait({&wait, 1}, std::chrono::seconds(30)), FutexResult::kWoken);
      });
    }
    // Who is moved is asleep.
    for (long moved = 0; moved < count; std::this_thread::yield()) {
      moved += ::syscall(SYS_futex, &bed_, FUTEX_REQUEUE, 0, count, &word_, 0);
    }
  }
  const HalfWord& word() const { return word_; }
  void join() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  HalfWord bed_{0};
  HalfWord word_{0};
  std::vector<std::thread> threads_;
};

inline void wake_and_join(int count) {
  Sleepers sleepers(count);
  wake_all(sleepers.word());
  sleepers.join();
}

}  // namespace memlease::wire
