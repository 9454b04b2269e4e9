// One uid's flood of events hides no other's, and costs a bounded number of limiters.
#include "gtest/gtest.h"
#include "server/telemetry/uid_log_limiters.h"

namespace memlease::server {
namespace {

using std::chrono::seconds;
using Clock = UidLogLimiters::Clock;

constexpr std::uint32_t kBurst = 2;

class UidLogLimitersTest : public ::testing::Test {
 protected:
  // Is this event of the uid logged?
  bool logged(uid_t uid) { return limiters_.of(uid, now_)->admit(now_).has_value(); }
  void flood(uid_t uid) {
    for (std::uint32_t i = 0; i < kBurst; ++i) EXPECT_TRUE(logged(uid)) << uid;
    EXPECT_FALSE(logged(uid)) << uid;
  }

  UidLogLimiters limiters_{kBurst, seconds(10), [](uid_t uid) { return uid; }, 2};
  Clock::time_point now_ = Clock::now();
};

TEST_F(UidLogLimitersTest, AUidsFloodHidesNoOthersEvents) {
  flood(1000);
  EXPECT_TRUE(logged(1001));
  EXPECT_FALSE(logged(1000));
  now_ += seconds(10);
  EXPECT_TRUE(logged(1000));
}

TEST_F(UidLogLimitersTest, LinesAreCountedForTheirPeriod) {
  EXPECT_EQ(limiters_.lines_of(1000, now_), 0U);
  EXPECT_TRUE(logged(1000));
  EXPECT_EQ(limiters_.lines_of(1000, now_), 1U);
  EXPECT_TRUE(logged(1000));
  EXPECT_FALSE(logged(1000));
  EXPECT_EQ(limiters_.lines_of(1000, now_), limiters_.limit());
  EXPECT_EQ(limiters_.lines_of(1001, now_), 0U);
  EXPECT_EQ(limiters_.lines_of(1000, now_ + seconds(10)), 0U);
}

TEST_F(UidLogLimitersTest, UidsBeyondTheMostShareOne) {
  flood(1000);
  flood(1001);
  EXPECT_TRUE(logged(1002));
  EXPECT_TRUE(logged(1003));
  EXPECT_FALSE(logged(1002));
  EXPECT_EQ(limiters_.of(1002, now_), limiters_.of(1004, now_));
}

TEST_F(UidLogLimitersTest, QuietUidsMakeRoomForOthers) {
  flood(1000);
  flood(1001);
  now_ += seconds(9);
  EXPECT_FALSE(logged(1001));
  now_ += seconds(1);  // uid 1000 has been quiet for a period, and uid 1001 has not
  EXPECT_TRUE(logged(1002));
  EXPECT_NE(limiters_.of(1002, now_), limiters_.of(1003, now_));
  EXPECT_EQ(limiters_.of(1003, now_), limiters_.of(1004, now_)) << "there are two again";
}

TEST_F(UidLogLimitersTest, ALimiterInUseOutlivesItsPlace) {
  const auto used = limiters_.of(1000, now_);
  now_ += seconds(10);
  limiters_.of(1001, now_);
  limiters_.of(1002, now_);
  EXPECT_NE(limiters_.of(1000, now_), used);
  EXPECT_TRUE(used->admit(now_).has_value());
}

TEST_F(UidLogLimitersTest, UidsOfOnePayerShareOne) {
  UidLogLimiters limiters(kBurst, std::chrono::seconds(10), [](uid_t uid) { return uid / 1000; });
  EXPECT_EQ(limiters.of(1001), limiters.of(1999));
  EXPECT_NE(limiters.of(1001), limiters.of(2001));
}

}  // namespace
}  // namespace memlease::server
