// Threads that stand by for gRPC.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "wire/grpc/thread_reserve.h"

namespace memlease::wire {
namespace {

using ::memlease::testing::eventually;

std::size_t threads() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                    std::filesystem::directory_iterator()));
}

// One that has been joined is there for a moment more.
bool becomes(std::size_t count) {
  return eventually([count] { return threads() == count; });
}

// With that which ThreadSanitizer starts for the first.
std::size_t threads_of_a_threaded_program() {
  pid_t first = 0;
  std::thread([&first] { first = ::gettid(); }).join();
  const std::filesystem::path its = "/proc/self/task/" + std::to_string(first);
  EXPECT_TRUE(eventually([&its] { return !std::filesystem::exists(its); }));
  return threads();
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
    EXPECT_TRUE(becomes(before_));
  }

  std::size_t before_ = threads_of_a_threaded_program();
  std::atomic<int> calls_{0};
};

TEST_F(ThreadReserve, RunsWhatItIsGivenInThreadsThatAreThere) {
  ASSERT_TRUE(reserve_threads("to call").ok());
  const std::size_t there = threads();
  EXPECT_GT(there, before_);
  pthread_t thread{};
  ASSERT_TRUE(take_reserved_thread(thread, false, count, &calls_));
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, &calls_);
  EXPECT_EQ(calls_, 1);
  EXPECT_TRUE(becomes(there - 1)) << "none was made for it";
}

TEST_F(ThreadReserve, HasNoneOnceAllAreTaken) {
  ASSERT_TRUE(reserve_threads("to call").ok());
  pthread_t thread{};
  int taken = 0;
  while (take_reserved_thread(thread, false, count, &calls_)) {
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    ++taken;
  }
  EXPECT_EQ(calls_, taken);
  EXPECT_TRUE(becomes(before_));
}

TEST_F(ThreadReserve, HasNoneBeforeAndAfterwards) {
  pthread_t thread{};
  EXPECT_FALSE(take_reserved_thread(thread, false, count, &calls_));
  ASSERT_TRUE(reserve_threads("to call").ok());
  release_reserved_threads();
  EXPECT_FALSE(take_reserved_thread(thread, false, count, &calls_));
  EXPECT_EQ(calls_, 0);
}

TEST_F(ThreadReserve, LetsThoseBeforeGo) {
  ASSERT_TRUE(reserve_threads("to call").ok());
  const std::size_t there = threads();
  ASSERT_TRUE(reserve_threads("to call").ok());
  EXPECT_TRUE(becomes(there));
}

TEST_F(ThreadReserve, ADetachedThreadIsJoinedByNobody) {
  ASSERT_TRUE(reserve_threads("to call").ok());
  pthread_t thread{};
  ASSERT_TRUE(take_reserved_thread(thread, true, count, &calls_));
  EXPECT_TRUE(eventually([this] { return calls_ == 1; }));
}

}  // namespace
}  // namespace memlease::wire
