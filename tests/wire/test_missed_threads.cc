// Who is told of threads that gRPC does not get.
#include <pthread.h>

#include <cerrno>
#include <thread>

#include "gtest/gtest.h"
#include "wire/grpc/missed_threads.h"

namespace memlease::wire {
namespace {

using Run = void* (*)(void*);

int fail(Run /*run*/, void* /*argument*/) { return EAGAIN; }

int run_at_once(Run run, void* argument) {
  std::thread(run, argument).join();
  return 0;
}

void* nothing(void* argument) { return argument; }

// Needs one more, in the thread that it is.
void* miss_another(void* argument) {
  EXPECT_EQ(create_telling(nothing, nullptr, fail), EAGAIN);
  return argument;
}

void* make_one_that_misses_another(void* argument) {
  EXPECT_EQ(create_telling(miss_another, nullptr, run_at_once), 0);
  return argument;
}

TEST(MissedThreads, AreToldWhileItLives) {
  int told = 0;
  {
    const MissedThreads missed([&told] { ++told; });
    EXPECT_EQ(create_telling(nothing, nullptr, fail), EAGAIN);
    EXPECT_EQ(told, 1);
    EXPECT_EQ(create_telling(nothing, nullptr, run_at_once), 0);
    EXPECT_EQ(told, 1) << "it was made";
  }
  EXPECT_EQ(create_telling(nothing, nullptr, fail), EAGAIN);
  EXPECT_EQ(told, 1);
}

TEST(MissedThreads, OfThreadsMadeMeanwhileAndOfTheirsAreTold) {
  int told = 0;
  const MissedThreads missed([&told] { ++told; });
  EXPECT_EQ(create_telling(miss_another, nullptr, run_at_once), 0);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(create_telling(make_one_that_misses_another, nullptr, run_at_once), 0);
  EXPECT_EQ(told, 2);
}

TEST(MissedThreads, OfOtherThreadsAreNotTold) {
  int told = 0;
  const MissedThreads missed([&told] { ++told; });
  std::thread([] { miss_another(nullptr); }).join();
  EXPECT_EQ(told, 0);
}

// As one server of gRPC beside another.
TEST(MissedThreads, AreToldToTheInnermost) {
  int outer = 0;
  int inner = 0;
  const MissedThreads first([&outer] { ++outer; });
  {
    const MissedThreads second([&inner] { ++inner; });
    EXPECT_EQ(create_telling(nothing, nullptr, fail), EAGAIN);
  }
  EXPECT_EQ(create_telling(nothing, nullptr, fail), EAGAIN);
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 1);
}

}  // namespace
}  // namespace memlease::wire
