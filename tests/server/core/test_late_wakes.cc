#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/core/late_wakes.h"
#include "wire/futex.h"

namespace memlease::server {
namespace {

void sleep_on(const wire::HalfWord& word) {
  const std::array sleep{wire::FutexWait{&word, 0}};
  EXPECT_NE(wire::futex_wait(sleep, std::chrono::seconds(60)), wire::FutexResult::kTimedOut);
}

// True if there was one.
bool wake_one(const wire::HalfWord& word) {
  return ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0) == 1;
}

// They stay where they are: each is requeued from the word to itself.
int sleepers_on(wire::HalfWord& word) {
  return static_cast<int>(
      ::syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 0, INT_MAX, &word, word.load()));
}

TEST(LateWakes, WakeAtTheirEndAndNotBefore) {
  wire::HalfWord first{0};
  wire::HalfWord second{0};
  LateWakes::Words crowded;
  std::thread sleeps_on_first(sleep_on, std::cref(first));
  std::thread sleeps_on_second(sleep_on, std::cref(second));
  {
    const LateWakes late(crowded);
    while (!wake_one(first)) std::this_thread::yield();  // asleep, and woken by us
    sleeps_on_first.join();
    sleeps_on_first = std::thread(sleep_on, std::cref(first));
    wake_sleepers(first);
    while (!wake_one(first)) std::this_thread::yield();  // wake_sleepers() has not
    second.store(1);
    wake_sleepers(second);
  }
  sleeps_on_first.join();
  sleeps_on_second.join();
  EXPECT_TRUE(crowded.empty());
}

// As many threads as it takes: one that has been woken does not sleep again.
TEST(LateWakes, LeaveTheRestOfACrowdToWhoeverHasTime) {
  wire::HalfWord word{0};
  LateWakes::Words crowded;
  constexpr int kCrowd = LateWakes::kFew + 1;
  std::vector<std::thread> sleepers;
  for (int i = 0; i < kCrowd; ++i) sleepers.emplace_back(sleep_on, std::cref(word));
  while (sleepers_on(word) < kCrowd) std::this_thread::yield();
  {
    const LateWakes late(crowded);
    wake_sleepers(word);
  }
  EXPECT_EQ(crowded, LateWakes::Words{&word});
  EXPECT_EQ(sleepers_on(word), 1);
  wake_crowds(crowded);
  for (std::thread& sleeper : sleepers) sleeper.join();
}

TEST(LateWakes, WhereNoneLivesAllAreWokenAtOnce) {
  wire::HalfWord word{0};
  std::thread sleeper(sleep_on, std::cref(word));
  word.store(1);
  wake_sleepers(word);
  sleeper.join();
}

}  // namespace
}  // namespace memlease::server
