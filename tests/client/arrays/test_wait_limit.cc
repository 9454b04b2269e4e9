#include <memory>
#include <stdexcept>
#include <thread>

#include "client/arrays/wait_limit.h"
#include "gtest/gtest.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using wire::ErrorCode;

class WaitLimitTest : public ::testing::Test {
 protected:
  testing::FakeFiles* const files = new testing::FakeFiles;
  Session session{"/here", wire::SessionId{7}, std::unique_ptr<FileSource>(files),
                  std::make_unique<testing::FakeControl>()};
};

TEST_F(WaitLimitTest, OfNothingIsOverAtOnce) {
  for (const std::chrono::nanoseconds none : {0ns, -5ns}) {
    WaitLimit limit(session, 0, none, 10s);
    EXPECT_TRUE(limit.expired());
    EXPECT_EQ(limit.left(), 0ns);
  }
}

TEST(Timeout, IsAnyDurationAndNeverOverflows) {
  EXPECT_EQ(Timeout(250ms).value(), 250ms);
  EXPECT_EQ(Timeout(1.5s).value(), 1500ms);
  EXPECT_EQ(Timeout(std::chrono::milliseconds::max()).value(), kForever);
  EXPECT_EQ(Timeout(std::chrono::hours::max()).value(), kForever);
  EXPECT_EQ(Timeout(kForever).value(), kForever);
  EXPECT_LE(Timeout(std::chrono::hours::min()).value(), 0ns);
  EXPECT_FALSE(Timeout(std::nullopt).has_value());
  EXPECT_FALSE(Timeout().has_value());
}

TEST(Timeout, IsAnyTimePointAndEndsThen) {
  using Steady = std::chrono::steady_clock;
  const Timeout soon(Steady::now() + 10s);
  EXPECT_LE(soon.from_now(), 10s);
  EXPECT_GT(soon.from_now(), 9s);
  const Timeout brief(Steady::now() + 1ms);
  std::this_thread::sleep_for(1ms);
  EXPECT_EQ(brief.from_now(), 0s) << "it does not begin again";
  EXPECT_GT(Timeout(std::chrono::system_clock::now() + 10s).from_now(), 9s);
  EXPECT_EQ(Timeout(Steady::now() - 1h).from_now(), 0s);
  EXPECT_EQ(Timeout(Steady::time_point::max()).from_now(), kForever);
  EXPECT_EQ(Timeout(std::chrono::system_clock::time_point::max()).from_now(), kForever);
  EXPECT_EQ(Timeout(Steady::time_point::min()).from_now(), 0s);
  EXPECT_EQ(Timeout(250ms).from_now(), 250ms);
  EXPECT_FALSE(Timeout().from_now().has_value());
}

TEST_F(WaitLimitTest, EndsWithAStop) {
  Stop stop;
  WaitLimit limit(session, 0, 10s, kForever, kNoInterrupts, &stop);
  EXPECT_TRUE(limit.step().ok());
  stop.request();
  EXPECT_EQ(wire::code_of(limit.step()), ErrorCode::kInterrupted);
  EXPECT_EQ(wire::code_of(limit.check_call()), ErrorCode::kInterrupted);
  const auto start = std::chrono::steady_clock::now();
  limit.sleep({});
  EXPECT_LT(std::chrono::steady_clock::now() - start, kInterruptInterval);
}

TEST_F(WaitLimitTest, IsToldWhatHasBeenClosed) {
  bool open = true;
  const auto still_open = [&] { return open ? absl::OkStatus() : absl::CancelledError(); };
  WaitLimit limit(session, 0, 10s, kForever, still_open);
  open = false;
  const auto start = std::chrono::steady_clock::now();
  limit.sleep({});
  open = true;
  EXPECT_TRUE(limit.step().ok());
  wait_news.tell();
  limit.sleep({});
  EXPECT_LT(std::chrono::steady_clock::now() - start, kInterruptInterval);
}

TEST_F(WaitLimitTest, SleepsUntilItsDeadlineAtMost) {
  WaitLimit brief(session, 0, 5ms, kForever);
  EXPECT_LE(brief.left(), 5ms);
  while (!brief.expired()) brief.sleep({});
  EXPECT_EQ(brief.left(), 0ns);
}

TEST_F(WaitLimitTest, SleepsInSlicesUntilItIsLongAndSomebodyTellsOfTheEndsOfConnections) {
  WaitLimit limit(session, 0, 10s, kForever);
  limit.sleep({});
  limit.sleep({});
  EXPECT_TRUE(limit.is_long());
  files->watched = true;
  limit.sleep({}, 1ms);
  EXPECT_EQ(files->watches, 0) << "nobody is to tell whoever looks again so soon";
  wire::HalfWord word{1};
  const wire::FutexWait changed{&word, 0};
  limit.sleep({&changed, 1});
  EXPECT_EQ(files->watches, 1);
  const std::uint64_t any_time = session.add_interrupt_check([] {});
  WaitLimit asked(session, any_time, 10s, kForever);
  while (!asked.is_long()) asked.sleep({});
  asked.sleep({});
  EXPECT_EQ(files->watches, 1) << "the check may have something to say at any time";
}

TEST_F(WaitLimitTest, MayBeNone) {
  WaitLimit limit(session, 0, kForever, 0s);
  EXPECT_FALSE(limit.expired());
}

TEST_F(WaitLimitTest, IsTheCallersOrTheDefault) {
  EXPECT_EQ(WaitLimit(session, 0, std::nullopt, 10s).limit_text(), "10 s");
  EXPECT_EQ(WaitLimit(session, 0, 250ms, 10s).limit_text(), "0.25 s");
}

TEST_F(WaitLimitTest, EndsWithAnInterruptOfItsOwnCaller) {
  const std::uint64_t quiet = session.add_interrupt_check([] {});
  const std::uint64_t thrower =
      session.add_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
  for (const std::uint64_t other : {std::uint64_t{0}, quiet}) {
    EXPECT_TRUE(WaitLimit(session, other, 10s, kForever).step().ok());
  }
  WaitLimit limit(session, thrower, 10s, kForever);
  EXPECT_EQ(wire::code_of(limit.step()), ErrorCode::kInterrupted);
}

// Its answer may have come while this process was stopped.
TEST_F(WaitLimitTest, GivesACallOneMoreSliceAfterItsEnd) {
  WaitLimit limit(session, 0, 0ns, kForever);
  EXPECT_TRUE(limit.check_call().ok());
  const absl::Status late = limit.check_call();
  EXPECT_EQ(wire::code_of(late), ErrorCode::kTimeout);
  EXPECT_TRUE(limit.ends_with(late));
  WaitLimit in_time(session, 0, 1h, kForever);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(in_time.check_call().ok());
  EXPECT_FALSE(in_time.ends_with(late)) << "it is another one's time that is over";
}

TEST_F(WaitLimitTest, EndsWithTheDaemon) {
  WaitLimit limit(session, 0, 10s, kForever);
  files->gone = true;
  EXPECT_EQ(wire::code_of(limit.step()), ErrorCode::kDaemonLost);
}

}  // namespace
}  // namespace memlease::internal
