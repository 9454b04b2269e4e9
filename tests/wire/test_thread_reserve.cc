// Threads that stand by for gRPC.
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <filesystem>

#include "gtest/gtest.h"
#include "wire/grpc/thread_reserve.h"

namespace memlease::wire {
namespace {

std::size_t threads() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                    std::filesystem::directory_iterator()));
}

void* count(void* counter) {
  static_cast<std::atomic<int>*>(counter)->fetch_add(1);
  return counter;
}

class ThreadReserve : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(use_reserved_threads()); }
  void TearDown() override {
    release_reserved_threads();
    EXPECT_EQ(threads(), before_);
  }

  std::size_t before_ = threads();
  std::atomic<int> calls_{0};
};

TEST_F(ThreadReserve, RunsWhatItIsGivenInThreadsThatAreThere) {
  ASSERT_TRUE(reserve_threads().ok());
  const std::size_t there = threads();
  EXPECT_GT(there, before_);
  pthread_t thread{};
  ASSERT_TRUE(take_reserved_thread(thread, false, count, &calls_));
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, &calls_);
  EXPECT_EQ(calls_, 1);
  EXPECT_EQ(threads(), there - 1) << "none was made for it";
}

TEST_F(ThreadReserve, HasNoneOnceAllAreTaken) {
  ASSERT_TRUE(reserve_threads().ok());
  pthread_t thread{};
  int taken = 0;
  while (take_reserved_thread(thread, false, count, &calls_)) {
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    ++taken;
  }
  EXPECT_EQ(calls_, taken);
  EXPECT_EQ(threads(), before_);
}

TEST_F(ThreadReserve, HasNoneBeforeAndAfterwards) {
  pthread_t thread{};
  EXPECT_FALSE(take_reserved_thread(thread, false, count, &calls_));
  ASSERT_TRUE(reserve_threads().ok());
  release_reserved_threads();
  EXPECT_FALSE(take_reserved_thread(thread, false, count, &calls_));
  EXPECT_EQ(calls_, 0);
}

TEST_F(ThreadReserve, LetsThoseBeforeGo) {
  ASSERT_TRUE(reserve_threads().ok());
  const std::size_t there = threads();
  ASSERT_TRUE(reserve_threads().ok());
  EXPECT_EQ(threads(), there);
}

TEST_F(ThreadReserve, ADetachedThreadIsJoinedByNobody) {
  ASSERT_TRUE(reserve_threads().ok());
  pthread_t thread{};
  ASSERT_TRUE(take_reserved_thread(thread, true, count, &calls_));
  while (calls_ == 0) sched_yield();
  release_reserved_threads();
  while (threads() != before_) sched_yield();
}

}  // namespace
}  // namespace memlease::wire
