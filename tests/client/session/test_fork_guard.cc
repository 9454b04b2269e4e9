// What a fork waits for, and what it does in the child and in the parent.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "client/session/fork_guard.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "tests/support/forked.h"

namespace memlease::internal {
namespace {

// As they are registered for the rest of the process.
wire::Mutex early_mutex{wire::HeldOverLocks(3)};
wire::Mutex late_mutex{wire::HeldOverLocks(4)};
std::atomic<int> pauses{0};
std::atomic<int> resumptions{0};

class ForkGuardTest : public ::testing::Test {
 protected:
  ForkGuardTest() {
    static const bool registered = [] {
      hold_over_fork(late_mutex, wire::HeldOverLocks(4));
      hold_over_fork(early_mutex, wire::HeldOverLocks(3));
      pause_over_fork([] { ++pauses; }, [] { ++resumptions; });
      return true;
    }();
    EXPECT_TRUE(registered);
    pauses = 0;
    resumptions = 0;
  }
  static std::string lock_both() {
    ::alarm(10);
    const wire::MutexLock early(early_mutex);
    const wire::MutexLock late(late_mutex);
    return "has locked both";
  }
  static std::future<std::string> fork_elsewhere(std::string (*in_child)()) {
    return std::async(std::launch::async, [=] { return testing::in_forked_child(in_child); });
  }
  template <typename T>
  static bool waits(const std::future<T>& future) {
    return future.wait_for(std::chrono::milliseconds(10)) == std::future_status::timeout;
  }
};

TEST_F(ForkGuardTest, AnObserverIsCalledInTheChildAlone) {
  int calls = 0;
  const ForkObserver observer([&] { ++calls; });
  const auto count = [&] { return std::to_string(calls); };
  EXPECT_EQ(testing::in_forked_child(count), "1");
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(testing::in_forked_child(count), "1") << "it goes on to observe in the parent";
}

// What it does is done: a descriptor of that number may be somebody else's by now.
TEST_F(ForkGuardTest, AnObserverIsNotCalledAgainInAChildOfTheChild) {
  int calls = 0;
  const ForkObserver observer([&] { ++calls; });
  EXPECT_EQ(testing::in_forked_child(
                [&] { return testing::in_forked_child([&] { return std::to_string(calls); }); }),
            "1");
}

TEST_F(ForkGuardTest, OneThatHasBegunInTheChildObservesItsForks) {
  int calls = 0;
  EXPECT_EQ(testing::in_forked_child([&] {
              const ForkObserver observer([&] { ++calls; });
              return testing::in_forked_child([&] { return std::to_string(calls); });
            }),
            "1");
}

TEST_F(ForkGuardTest, AnObserverThatHasEndedIsNotCalled) {
  int ended_calls = 0;
  int calls = 0;
  std::optional<ForkObserver> ended;
  ended.emplace([&] { ++ended_calls; });
  const ForkObserver observer([&] { ++calls; });
  ended.reset();
  EXPECT_EQ(testing::in_forked_child([&] { return fmt::format("{} {}", ended_calls, calls); }),
            "0 1");
}

TEST_F(ForkGuardTest, TheGenerationGrowsInEachChild) {
  const std::uint32_t here = fork_generation();
  const auto grown = [here] { return std::to_string(fork_generation() - here); };
  EXPECT_EQ(testing::in_forked_child(grown), "1");
  EXPECT_EQ(testing::in_forked_child([&] { return testing::in_forked_child(grown); }), "2");
  EXPECT_EQ(fork_generation(), here);
}

TEST_F(ForkGuardTest, AForkWaitsForItsMutexesAndGivesThemBackOnBothSides) {
  std::future<std::string> forking;
  {
    const wire::MutexLock lock(early_mutex);
    forking = fork_elsewhere(lock_both);
    EXPECT_TRUE(waits(forking)) << "what the mutex guards may be in disorder";
  }
  EXPECT_EQ(forking.get(), "has locked both");
  EXPECT_EQ(std::async(std::launch::async, lock_both).get(), "has locked both");
  ::alarm(0);
}

TEST_F(ForkGuardTest, AForkTakesTheMutexesInTheirOrder) {
  std::future<std::string> forking;
  std::future<void> next;
  {
    const wire::MutexLock lock(late_mutex);
    forking = fork_elsewhere(lock_both);
    EXPECT_TRUE(testing::eventually([&] {
      next = std::async(std::launch::async, [] { const wire::MutexLock early(early_mutex); });
      return waits(next);
    })) << "it has not taken the early one, and waits for the late one";
  }
  EXPECT_EQ(forking.get(), "has locked both");
  next.get();
}

TEST_F(ForkGuardTest, ThreadsArePausedBeforeTheMutexesAreTakenAndResumedInTheParentAlone) {
  std::future<std::string> forking;
  {
    const wire::MutexLock lock(early_mutex);
    forking =
        fork_elsewhere([] { return fmt::format("{} {}", pauses.load(), resumptions.load()); });
    EXPECT_TRUE(testing::eventually([] { return pauses == 1; })) << "they may want the mutex";
    EXPECT_EQ(resumptions, 0);
  }
  EXPECT_EQ(forking.get(), "1 0");
  EXPECT_EQ(pauses, 1);
  EXPECT_EQ(resumptions, 1);
}

// By a handler that came first.
TEST_F(ForkGuardTest, ThreadsThatHaveBeenPausedForAForkAreNotPausedAgain) {
  const auto fork = [] { return testing::in_forked_child([] { return std::string("forked"); }); };
  pause_threads();
  pause_threads();
  EXPECT_EQ(pauses, 1);
  EXPECT_EQ(fork(), "forked");
  EXPECT_EQ(pauses, 1);
  EXPECT_EQ(resumptions, 1);
  EXPECT_EQ(fork(), "forked");
  EXPECT_EQ(pauses, 2) << "this is another fork";
  EXPECT_EQ(resumptions, 2);
}

TEST_F(ForkGuardTest, NoForkBeginsWhereThereIsToBeNone) {
  std::future<std::string> forking;
  {
    const NoFork whole;
    forking = fork_elsewhere(lock_both);
    EXPECT_TRUE(waits(forking));
  }
  EXPECT_EQ(forking.get(), "has locked both");
}

}  // namespace
}  // namespace memlease::internal
