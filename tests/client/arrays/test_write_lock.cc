#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "client/arrays/write_lock.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;

TEST(WriteLock, IsHadByOne) {
  WriteLock lock;
  EXPECT_FALSE(lock.taken());
  EXPECT_TRUE(lock.acquire());
  EXPECT_TRUE(lock.taken());
  EXPECT_FALSE(lock.acquire());
  lock.release();
  EXPECT_FALSE(lock.taken());
  EXPECT_TRUE(lock.acquire());
}

TEST(WriteLock, MayBeLetGoByAnotherThread) {
  WriteLock lock;
  ASSERT_TRUE(lock.acquire());
  std::thread([&] { lock.release(); }).join();
  EXPECT_TRUE(lock.acquire());
}

TEST(WriteLock, KnowsTheThreadThatHasIt) {
  WriteLock lock;
  EXPECT_FALSE(lock.taken_by_this_thread());
  ASSERT_TRUE(lock.acquire());
  EXPECT_TRUE(lock.taken_by_this_thread());
  EXPECT_FALSE(std::async(std::launch::async, [&] { return lock.taken_by_this_thread(); }).get());
  std::async(std::launch::async, [&] { lock.pass_to_this_thread(); }).get();
  EXPECT_FALSE(lock.taken_by_this_thread());
  lock.pass_to_this_thread();
  EXPECT_TRUE(lock.taken_by_this_thread());
  lock.release();
  EXPECT_FALSE(lock.taken_by_this_thread());
}

// As a call that waits for it.
void acquire_sleeping(WriteLock& lock) {
  const WriteLock::Waiter waiter(lock);
  for (;;) {
    const wire::FutexWait seen = lock.look();
    if (lock.acquire()) return;
    wire::futex_wait({&seen, 1}, 1h);
  }
}

TEST(WriteLock, WakesThoseWhoWait) {
  WriteLock lock;
  ASSERT_TRUE(lock.acquire());
  auto waiting = std::async(std::launch::async, [&] { acquire_sleeping(lock); });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  EXPECT_TRUE(lock.has_waiters());
  lock.release();
  waiting.get();
  EXPECT_TRUE(lock.taken());
  EXPECT_FALSE(lock.has_waiters());
}

TEST(WriteLock, KeepsThreadsApart) {
  WriteLock lock;
  std::atomic<int> inside{0};
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        acquire_sleeping(lock);
        EXPECT_EQ(++inside, 1);
        ++count;
        --inside;
        lock.release();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace memlease::internal
