#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/loop/event_loop.h"
#include "server/loop/thread_time.h"
#include "tests/support/open_files.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// What time this thread has had of a processor, so that a busy machine does not matter.
void use_processor(milliseconds time) {
  const auto end = thread_time() + time;
  while (thread_time() < end) continue;
}

void use_processor_for_socket(milliseconds time) {
  const SocketTime socket_time;
  use_processor(time);
}

class EventLoopTest : public ::testing::Test {
 public:
  ~EventLoopTest() override {
    loop_.reset();
    EXPECT_EQ(testing::open_files(), files_before_);
  }

 protected:
  EventLoopTest() : files_before_(testing::open_files()), loop_(*EventLoop::create()) {}
  static wire::UniqueFd readable() { return wire::UniqueFd(::eventfd(1, EFD_CLOEXEC)); }
  // Runs all that is due now.
  void run_once() {
    loop_->stop();
    loop_->run();
  }

  // `add` gives user 1 a lot to do. What is ready for user 2 meanwhile waits for one of that.
  void expect_turns_beside(const std::function<void(const EventLoop::Task& work)>& add) {
    const wire::UniqueFd one(::eventfd(0, EFD_CLOEXEC));
    std::vector<std::uint32_t> calls;
    add([&] {
      calls.push_back(1);
      if (calls.size() == 3) ::eventfd_write(one.get(), 1);
      use_processor(milliseconds(2));
    });
    const auto last = [&](std::uint32_t) {
      calls.push_back(2);
      loop_->stop();
    };
    ASSERT_TRUE(loop_->add(one.get(), EPOLLIN, last, 2).ok());
    loop_->run();
    EXPECT_EQ(std::ranges::find(calls, 2U) - calls.begin(), 4) << "one more of his is waited for";
  }

  const std::set<std::string> files_before_;
  std::unique_ptr<EventLoop> loop_;
  std::vector<std::string> seen_;
};

// As where somebody else makes it slow to give him a file.
TEST_F(EventLoopTest, WhoseSocketTakesNoTimeDoesNotRest) {
  const auto slow = readable();
  const auto his = readable();
  int slow_calls = 0;
  int his_calls = 0;
  const auto add = [&](const wire::UniqueFd& fd, auto callback) {
    ASSERT_TRUE(loop_->add(fd.get(), EPOLLIN, callback, 1).ok());
  };
  add(slow, [&](std::uint32_t) {
    use_processor(milliseconds(5));
    if (++slow_calls == 6) loop_->stop();
  });
  add(his, [&](std::uint32_t) { ++his_calls; });
  loop_->run();
  EXPECT_GE(his_calls, 3);
}

TEST_F(EventLoopTest, WhoTakesLongRestsEightTimesAsLongWithAllThatIsHis) {
  using Clock = EventLoop::Clock;
  constexpr milliseconds kRest{8 * 5};
  const auto slow = readable();
  const auto his = readable();
  const auto of_another = readable();
  Clock::time_point rests_until;
  int slow_calls = 0;
  int his_calls = 0;
  int others_calls = 0;
  const auto add = [&](const wire::UniqueFd& fd, std::uint32_t user, auto callback) {
    ASSERT_TRUE(loop_->add(fd.get(), EPOLLIN, callback, user).ok());
  };
  add(slow, 1, [&](std::uint32_t) {
    EXPECT_GE(Clock::now(), rests_until);
    use_processor_for_socket(milliseconds(5));
    rests_until = Clock::now() + kRest - milliseconds(1);
    if (++slow_calls == 6) loop_->stop();
  });
  add(his, 1, [&](std::uint32_t) {
    ++his_calls;
    EXPECT_GE(Clock::now(), rests_until);
  });
  add(of_another, 2, [&](std::uint32_t) { ++others_calls; });
  loop_->run();
  EXPECT_GT(others_calls, 10 * slow_calls);
  EXPECT_GT(his_calls, 0);
}

TEST_F(EventLoopTest, ADescriptorThatRestsCanBeChangedAndRemoved) {
  const auto slow = readable();
  const auto changed = readable();
  const auto removed = readable();
  bool is_changed = false;
  const auto add = [&](const wire::UniqueFd& fd, auto callback) {
    ASSERT_TRUE(loop_->add(fd.get(), EPOLLIN, callback, 1).ok());
  };
  add(slow, [&](std::uint32_t) {
    use_processor_for_socket(milliseconds(5));
    loop_->remove(slow.get());
    // Both have been found to rest by then.
    loop_->after(milliseconds(20), [&] {
      is_changed = true;
      loop_->modify(changed.get(), EPOLLOUT);
      loop_->remove(removed.get());
    });
  });
  add(changed, [&](std::uint32_t events) {
    if (!is_changed) return;
    EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLOUT));
    loop_->stop();
  });
  add(removed, [&](std::uint32_t) { EXPECT_FALSE(is_changed); });
  loop_->run();
  EXPECT_TRUE(is_changed);
  loop_->remove(changed.get());
}

TEST_F(EventLoopTest, UsersTakeTurnsHoweverManyDescriptorsOneHas) {
  std::vector<wire::UniqueFd> many;
  for (int i = 0; i < 20; ++i) many.push_back(readable());
  expect_turns_beside([&](const EventLoop::Task& work) {
    for (const wire::UniqueFd& fd : many) {
      ASSERT_TRUE(loop_->add(fd.get(), EPOLLIN, [work](std::uint32_t) { work(); }, 1).ok());
    }
  });
}

TEST_F(EventLoopTest, AUsersDescriptorsTakeTurns) {
  std::vector<wire::UniqueFd> fds;
  for (int i = 0; i < 5; ++i) fds.push_back(readable());
  std::vector<int> calls;
  for (int i = 0; i < 5; ++i) {
    const auto note = [&, i](std::uint32_t) {
      calls.push_back(i);
      use_processor(milliseconds(2));
      if (calls.size() == 10) loop_->stop();
    };
    ASSERT_TRUE(loop_->add(fds.at(static_cast<std::size_t>(i)).get(), EPOLLIN, note, 1).ok());
  }
  loop_->run();
  calls.resize(10);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(std::ranges::count(calls, i), 2);
}

TEST_F(EventLoopTest, UsersTakeTurnsHoweverManyTimersOfOneAreDue) {
  expect_turns_beside([&](const EventLoop::Task& work) {
    for (int i = 0; i < 20; ++i) loop_->after(milliseconds(0), work, 1);
  });
}

TEST_F(EventLoopTest, TimersOfWhoTakesLongRestToo) {
  using Clock = EventLoop::Clock;
  Clock::time_point rests_until;
  int calls = 0;
  const auto take_long = [&] {
    EXPECT_GE(Clock::now(), rests_until);
    use_processor_for_socket(milliseconds(5));
    rests_until = Clock::now() + 8 * milliseconds(5) - milliseconds(1);
    if (++calls == 3) loop_->stop();
  };
  for (int i = 0; i < 3; ++i) loop_->after(milliseconds(0), take_long, 1);
  loop_->after(milliseconds(1), [&] { EXPECT_LT(Clock::now(), rests_until); }, 2);
  loop_->run();
  EXPECT_EQ(calls, 3);
}

TEST(EventLoop, WhoTakesVeryLongAgainRestsEightTimesAsLongAsTheLastTimeUpToALimit) {
  using Clock = EventLoop::Clock;
  const auto loop =
      *EventLoop::create({.very_long = milliseconds(2), .longest = milliseconds(150)});
  std::vector<Clock::time_point> begun;
  std::vector<Clock::time_point> ended;
  const auto take_long = [&] {
    begun.push_back(Clock::now());
    use_processor_for_socket(milliseconds(2));
    ended.push_back(Clock::now());
    if (begun.size() == 4) loop->stop();
  };
  for (int i = 0; i < 4; ++i) loop->after(milliseconds(0), take_long, 1);
  loop->run();
  for (const std::size_t i : {0, 1, 2}) {
    EXPECT_GE(begun.at(i + 1) - ended.at(i), milliseconds(i == 0 ? 15 : i == 1 ? 127 : 149)) << i;
  }
}

TEST_F(EventLoopTest, WhatIsDoneForAUserAtOnceMakesHimRest) {
  bool is_served = false;
  loop_->run_for(1, [&](bool rests) {
    EXPECT_FALSE(rests);
    use_processor_for_socket(milliseconds(5));
  });
  EXPECT_TRUE(loop_->rests(1));
  EXPECT_FALSE(loop_->rests(2));
  EXPECT_FALSE(loop_->rests(std::nullopt));
  loop_->run_for(1, [&](bool rests) {
    EXPECT_TRUE(rests);
    use_processor_for_socket(milliseconds(5));
  });
  loop_->after(milliseconds(0), [&] { is_served = true; }, 1);
  loop_->after(milliseconds(5), [&] { EXPECT_FALSE(is_served); });
  loop_->after(milliseconds(100), [&] { loop_->stop(); });
  loop_->run();
  EXPECT_TRUE(is_served);
  EXPECT_FALSE(loop_->rests(1));
}

TEST_F(EventLoopTest, ADueTimerThatWaitsForItsTurnCanBeCancelled) {
  std::vector<EventLoop::TimerId> others;
  const auto cancel_others = [&] {
    for (const EventLoop::TimerId other : others) loop_->cancel(other);
    use_processor_for_socket(milliseconds(2));
    loop_->after(milliseconds(20), [&] { loop_->stop(); });
  };
  loop_->after(milliseconds(0), cancel_others, 1);
  for (int i = 0; i < 3; ++i) {
    const auto fail = [] { ADD_FAILURE() << "it was cancelled"; };
    others.push_back(loop_->after(milliseconds(0), fail, 1));
  }
  loop_->run();
}

// An edge is told once.
TEST_F(EventLoopTest, AnEdgeThatWaitsForItsTurnIsNotLost) {
  const auto slow = readable();
  const auto edge = readable();
  int edges = 0;
  const auto use = [](std::uint32_t) { use_processor(milliseconds(2)); };
  ASSERT_TRUE(loop_->add(slow.get(), EPOLLIN, use, 1).ok());
  const auto note = [&](std::uint32_t) {
    ++edges;
    loop_->stop();
  };
  ASSERT_TRUE(loop_->add(edge.get(), EPOLLIN | EPOLLET, note, 1).ok());
  loop_->run();
  EXPECT_EQ(edges, 1);
}

TEST_F(EventLoopTest, CallsBackForAReadyDescriptorUntilItIsRemoved) {
  const auto fd = readable();
  int calls = 0;
  ASSERT_TRUE(loop_
                  ->add(fd.get(), EPOLLIN,
                        [&](std::uint32_t events) {
                          EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLIN));
                          if (++calls == 3) {
                            loop_->remove(fd.get());
                            loop_->stop();
                          }
                        })
                  .ok());
  loop_->run();
  run_once();
  EXPECT_EQ(calls, 3);
}

TEST_F(EventLoopTest, ModifiesWhatADescriptorIsWatchedFor) {
  const auto fd = readable();
  std::vector<std::uint32_t> seen;
  ASSERT_TRUE(loop_
                  ->add(fd.get(), 0,
                        [&](std::uint32_t events) {
                          seen.push_back(events);
                          loop_->modify(fd.get(), 0);
                        })
                  .ok());
  run_once();
  run_once();
  EXPECT_THAT(seen, ElementsAre());
  loop_->modify(fd.get(), EPOLLOUT);
  run_once();
  run_once();
  EXPECT_THAT(seen, ElementsAre(EPOLLOUT));
  loop_->remove(fd.get());
}

// Both are ready in one wake-up; whichever comes first removes the other, whose number is used
// again at once by a third that is not ready.
TEST_F(EventLoopTest, NeverMistakesAReusedNumberForTheDescriptorBefore) {
  wire::UniqueFd fds[] = {readable(), readable()};
  int calls = 0, mistakes = 0;
  for (int mine = 0; mine < 2; ++mine) {
    ASSERT_TRUE(
        loop_
            ->add(fds[mine].get(), EPOLLIN,
                  [&, mine](std::uint32_t) {
                    ++calls;
                    loop_->remove(fds[mine].get());
                    wire::UniqueFd& other = fds[1 - mine];
                    const int number = other.get();
                    loop_->remove(number);
                    other.reset();
                    other.reset(::eventfd(0, EFD_CLOEXEC));
                    ASSERT_EQ(other.get(), number);
                    ASSERT_TRUE(
                        loop_->add(number, EPOLLIN, [&](std::uint32_t) { ++mistakes; }).ok());
                  })
            .ok());
  }
  run_once();
  run_once();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(mistakes, 0);
  for (const auto& fd : fds) loop_->remove(fd.get());
}

TEST_F(EventLoopTest, SaysWhyItCannotWatchADescriptor) {
  const wire::UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto status = loop_->add(file.get(), EPOLLIN, [](std::uint32_t) {});
  EXPECT_EQ(wire::message_of(status), "event loop: epoll_ctl: Operation not permitted");
  EXPECT_NE(wire::hint_of(status), "");
  loop_->remove(file.get());
}

TEST_F(EventLoopTest, FiresTimersInTheOrderOfTheirDeadlines) {
  const auto start = EventLoop::Clock::now();
  loop_->after(milliseconds(20), [&] {
    seen_.emplace_back("late");
    loop_->stop();
  });
  loop_->after(milliseconds(1), [&] { seen_.emplace_back("early"); });
  loop_->after(milliseconds(1), [&] { seen_.emplace_back("early too"); });
  loop_->after(milliseconds(0), [&] { seen_.emplace_back("at once"); });
  loop_->run();
  EXPECT_THAT(seen_, ElementsAre("at once", "early", "early too", "late"));
  EXPECT_GE(EventLoop::Clock::now() - start, milliseconds(20));
}

TEST_F(EventLoopTest, FiresNoCancelledTimer) {
  const auto cancelled = loop_->after(milliseconds(1), [&] { seen_.emplace_back("cancelled"); });
  EventLoop::TimerId cancelled_by_other;
  loop_->after(milliseconds(0), [&] { loop_->cancel(cancelled_by_other); });
  cancelled_by_other = loop_->after(milliseconds(0), [&] { seen_.emplace_back("cancelled"); });
  loop_->after(milliseconds(5), [&] { loop_->stop(); });
  loop_->cancel(cancelled);
  loop_->cancel(cancelled);
  loop_->cancel(EventLoop::TimerId{});
  loop_->run();
  EXPECT_THAT(seen_, ElementsAre());
}

TEST_F(EventLoopTest, LetsOthersInBetweenTimersThatSetThemselvesAnew) {
  int rounds = 0;
  std::function<void()> again = [&] {
    if (++rounds == 1) loop_->stop();
    loop_->after(milliseconds(0), again);
  };
  loop_->after(milliseconds(0), again);
  loop_->run();  // would not return if one wake-up ran them all
  EXPECT_GE(rounds, 1);
}

// What the kernel says about the loop's timerfd: the time to its next expiry.
TEST_F(EventLoopTest, ArmsItsTimerOnlyWhileThereIsOne) {
  const auto armed = [] {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
      std::ifstream info(entry.path());
      for (std::string line; std::getline(info, line);) {
        if (line.starts_with("it_value:")) return line != "it_value: (0, 0)";
      }
    }
    ADD_FAILURE() << "no timerfd";
    return false;
  };
  EXPECT_FALSE(armed());
  const auto first = loop_->after(std::chrono::hours(1), [] {});
  const auto second = loop_->after(std::chrono::hours(2), [] {});
  EXPECT_TRUE(armed());
  loop_->cancel(first);
  EXPECT_TRUE(armed());
  loop_->cancel(second);
  EXPECT_FALSE(armed());
  loop_->after(milliseconds(0), [&] { loop_->stop(); });
  loop_->run();
  EXPECT_FALSE(armed());
}

TEST_F(EventLoopTest, WakesForATimerAfterOneThatWasCancelled) {
  const auto begin = EventLoop::Clock::now();
  const auto first = loop_->after(milliseconds(5), [] { ADD_FAILURE() << "it was cancelled"; });
  loop_->after(milliseconds(30), [&] { loop_->stop(); });
  loop_->cancel(first);
  loop_->run();
  EXPECT_GE(EventLoop::Clock::now() - begin, milliseconds(30));
}

TEST_F(EventLoopTest, RunsPostedTasksInOrderAndNotWithinPost) {
  loop_->post([&] {
    seen_.emplace_back("first");
    loop_->post([&] { seen_.emplace_back("posted by first"); });
    seen_.emplace_back("still first");
  });
  loop_->post([&] { seen_.emplace_back("second"); });
  EXPECT_THAT(seen_, ElementsAre());
  run_once();
  run_once();
  EXPECT_THAT(seen_, ElementsAre("first", "still first", "second", "posted by first"));
}

TEST_F(EventLoopTest, OthersHaveTurnsBetweenPostedTasks) {
  const auto fd = readable();
  for (int i = 0; i < 20; ++i) {
    loop_->post([&] {
      seen_.emplace_back("posted");
      use_processor(milliseconds(2));
    });
  }
  loop_->stop();
  const auto note = [&](std::uint32_t) { seen_.emplace_back("other"); };
  ASSERT_TRUE(loop_->add(fd.get(), EPOLLIN, note, 1).ok());
  loop_->run();
  EXPECT_LT(std::ranges::find(seen_, "other") - seen_.begin(), 2);
  EXPECT_EQ(std::ranges::count(seen_, "posted"), 20);
}

TEST_F(EventLoopTest, TakesTasksOfManyThreadsWhileItRuns) {
  constexpr int kThreads = 4, kTasks = 2000;
  int ran = 0;  // by the loop's thread alone
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int task = 0; task < kTasks; ++task) {
        loop_->post([&] {
          if (++ran == kThreads * kTasks) loop_->stop();
        });
      }
    });
  }
  loop_->run();
  EXPECT_EQ(ran, kThreads * kTasks);
}

TEST_F(EventLoopTest, StopsFromAnotherThread) {
  const std::jthread stopper([&] { loop_->stop(); });
  loop_->run();
}

}  // namespace
}  // namespace memlease::server
