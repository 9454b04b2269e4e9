// When a connection to a busy daemon is tried again, and what it fails with in the end.
#include <chrono>
#include <functional>
#include <string>

#include "client/session/busy_retries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using ::testing::HasSubstr;

class BusyRetriesTest : public ::testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;

  static absl::Status failed(wire::ErrorCode code, const std::string& what = "it failed") {
    return wire::make_error(code, what, "");
  }
  static absl::Status busy(const std::string& what = "64 others connect") {
    return failed(wire::ErrorCode::kBusy, what);
  }
  BusyRetries until(Clock::time_point end) { return {"/here", end, check}; }
  BusyRetries for_long() { return until(Clock::now() + std::chrono::minutes(1)); }

  absl::Status interrupt;
  const std::function<absl::Status()> check = [this] { return interrupt; };
};

TEST_F(BusyRetriesTest, AreTriedAgainAMomentAfterTheDaemonWasBusy) {
  BusyRetries retries = for_long();
  for (int i = 0; i < 3; ++i) {
    const auto begin = Clock::now();
    EXPECT_TRUE(retries.after(busy()).ok());
    EXPECT_GE(Clock::now() - begin, std::chrono::microseconds(500));
  }
}

TEST_F(BusyRetriesTest, AnotherErrorIsWhatItFailsWith) {
  BusyRetries retries = for_long();
  const auto refused = failed(wire::ErrorCode::kDenied);
  EXPECT_EQ(retries.after(refused), refused);
  ASSERT_TRUE(retries.after(busy()).ok());
  EXPECT_EQ(retries.after(refused), refused);
}

TEST_F(BusyRetriesTest, AnInterruptEndsThem) {
  BusyRetries retries = for_long();
  interrupt = failed(wire::ErrorCode::kInterrupted, "Ctrl-C");
  EXPECT_EQ(retries.after(busy()), interrupt);
}

TEST_F(BusyRetriesTest, AfterTheirTimeTheLastBusyAnswerIsToldWithTheNumberOfTries) {
  const auto end = Clock::now() + std::chrono::milliseconds(2);
  BusyRetries retries = until(end);
  int tries = 0;
  absl::Status stop;
  while (stop.ok() && tries < 20) stop = retries.after(busy("answer " + std::to_string(++tries)));
  EXPECT_GE(Clock::now(), end);
  EXPECT_EQ(wire::code_of(stop), wire::ErrorCode::kTimeout);
  const std::string told = "the daemon in /here stayed busy (" + std::to_string(tries) + " tries";
  EXPECT_THAT(wire::message_of(stop), HasSubstr(told));
  EXPECT_THAT(wire::message_of(stop), HasSubstr("answer " + std::to_string(tries)));
}

// A try's own time may end first: the reason is still that it was busy.
TEST_F(BusyRetriesTest, ATryWithoutAnAnswerEndsThemByWhatTheDaemonSaidBefore) {
  BusyRetries retries = for_long();
  ASSERT_TRUE(retries.after(busy()).ok());
  const auto stop = retries.after(failed(wire::ErrorCode::kTimeout, "no answer"));
  EXPECT_EQ(wire::code_of(stop), wire::ErrorCode::kTimeout);
  EXPECT_THAT(wire::message_of(stop), HasSubstr("stayed busy (2 tries"));
  EXPECT_THAT(wire::message_of(stop), HasSubstr("64 others connect"));
}

TEST_F(BusyRetriesTest, WhereItWasNeverBusyATimeoutStaysOne) {
  BusyRetries retries = for_long();
  const auto unanswered = failed(wire::ErrorCode::kTimeout, "no answer");
  EXPECT_EQ(retries.after(unanswered), unanswered);
}

}  // namespace
}  // namespace memlease::internal
