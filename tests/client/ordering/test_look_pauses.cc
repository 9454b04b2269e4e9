#include <sys/prctl.h>

#include <chrono>

#include "client/ordering/look_pauses.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

using Clock = std::chrono::steady_clock;

int timer_slack_ns() { return prctl(PR_GET_TIMERSLACK); }

void pause_until_it_sleeps(LookPauses& looks, int slack_ns) {
  while (timer_slack_ns() == slack_ns) looks.pause();
}

TEST(LookPauses, AThreadsTimersAreFineWhileItSleepsAndThenAsBefore) {
  constexpr int kSlackNs = 70000;
  ASSERT_EQ(prctl(PR_SET_TIMERSLACK, kSlackNs), 0);
  {
    LookPauses looks;
    pause_until_it_sleeps(looks, kSlackNs);
    EXPECT_EQ(timer_slack_ns(), 1000);
  }
  EXPECT_EQ(timer_slack_ns(), kSlackNs);
  ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 0), 0) << "the process's own";
}

TEST(LookPauses, NoneIsMadeAtFirst) {
  const int slack_ns = timer_slack_ns();
  const Clock::time_point begin = Clock::now();
  LookPauses looks;
  pause_until_it_sleeps(looks, slack_ns);
  EXPECT_GE(Clock::now() - begin, std::chrono::microseconds(100));
}

TEST(LookPauses, FinerTimersStay) {
  ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 500), 0);
  {
    LookPauses looks;
    const Clock::time_point begin = Clock::now();
    while (Clock::now() - begin < std::chrono::microseconds(300)) looks.pause();
    EXPECT_EQ(timer_slack_ns(), 500);
  }
  EXPECT_EQ(timer_slack_ns(), 500);
  ASSERT_EQ(prctl(PR_SET_TIMERSLACK, 0), 0);
}

}  // namespace
}  // namespace memlease::internal
