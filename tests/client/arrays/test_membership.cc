// Handles, and threads that subscribe or leave: one at a time.
#include <future>
#include <string>

#include "client/arrays/membership.h"
#include "gtest/gtest.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;

class MembershipTest : public ::testing::Test {
 protected:
  MembershipLock lock;
  Membership membership{lock};
};

TEST_F(MembershipTest, IsClosedWithItsLastHandle) {
  EXPECT_TRUE(membership.add_handle());
  EXPECT_TRUE(membership.reopen());
  membership.drop_handle();
  EXPECT_FALSE(membership.close_handle());
  EXPECT_FALSE(membership.closed());
  EXPECT_TRUE(membership.close_handle());
  EXPECT_TRUE(membership.closed());
  EXPECT_FALSE(membership.add_handle());
}

TEST_F(MembershipTest, IsOpenAgainByAnAnswerUntilItHasBeenLeft) {
  ASSERT_TRUE(membership.close_handle());
  EXPECT_TRUE(membership.reopen());
  EXPECT_FALSE(membership.closed());
  ASSERT_TRUE(membership.close_handle());
  ASSERT_EQ(membership.begin_leaving(), 2U) << "both answers are to be given back";
  membership.note_left();
  membership.end();
  EXPECT_FALSE(membership.reopen());
  EXPECT_FALSE(membership.begin_leaving());
}

TEST_F(MembershipTest, WhoOpensWaitsForWhoLeaves) {
  ASSERT_TRUE(membership.begin_leaving());
  auto opens = std::async(std::launch::async, [this] { return membership.reopen(); });
  EXPECT_EQ(opens.wait_for(10ms), std::future_status::timeout);
  membership.note_left();
  membership.end();
  EXPECT_FALSE(opens.get());
}

TEST_F(MembershipTest, WhoLeavesLetsWhoSubscribesSeeToIt) {
  ASSERT_TRUE(membership.begin_subscribing("a", kNoInterrupts).ok());
  EXPECT_FALSE(membership.begin_leaving());
  membership.end();
  EXPECT_TRUE(membership.begin_leaving());
}

TEST_F(MembershipTest, AThreadThatWaitsToSubscribeCanBeInterrupted) {
  ASSERT_TRUE(std::async(std::launch::async, [this] { return membership.begin_leaving(); }).get());
  const auto status =
      membership.begin_subscribing("a", [] { return absl::CancelledError("interrupted"); });
  EXPECT_TRUE(absl::IsCancelled(status));
  membership.end();
  EXPECT_TRUE(membership.begin_subscribing("a", kNoInterrupts).ok());
}

TEST_F(MembershipTest, AThreadThatSubscribesDoesNotWaitForItself) {
  ASSERT_TRUE(membership.begin_subscribing("a", kNoInterrupts).ok());
  const auto nested = membership.begin_subscribing("a", kNoInterrupts);
  EXPECT_EQ(wire::code_of(nested), wire::ErrorCode::kBusy);
  membership.end();
}

// In a signal handler, or an interrupt check, that its call to leave has asked.
TEST_F(MembershipTest, AThreadThatLeavesDoesNotWaitForItself) {
  ASSERT_TRUE(membership.begin_leaving());
  EXPECT_FALSE(membership.reopen());
  const auto nested = membership.begin_subscribing("a", kNoInterrupts);
  EXPECT_EQ(wire::code_of(nested), wire::ErrorCode::kBusy);
  EXPECT_NE(wire::message_of(nested).find("about to leave 'a'"), std::string::npos);
  membership.end();
}

}  // namespace
}  // namespace memlease::internal
