#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/rpc/name_waits.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::ErrorCode;
using wire::SessionId;

class NameWaitsTest : public ::testing::Test {
 protected:
  // What a wait has been told, each time.
  using Told = std::shared_ptr<std::vector<absl::StatusOr<bool>>>;

  absl::StatusOr<NameWaits::Id> add(const std::string& name, uid_t uid, std::uint32_t session,
                                    const Told& told) {
    NameWait wait;
    wait.name = name;
    wait.peer.uid = uid;
    wait.session = SessionId{session};
    wait.deadline = std::chrono::steady_clock::now() + seconds(3600);
    wait.done = [told](const absl::StatusOr<bool>& exists) { told->push_back(exists); };
    return waits_.add(std::move(wait));
  }
  static Told nothing() { return std::make_shared<std::vector<absl::StatusOr<bool>>>(); }

  const std::unique_ptr<EventLoop> loop_ = *EventLoop::create();
  NameWaits waits_{*loop_, 2};
};

TEST_F(NameWaitsTest, AnArrayEndsTheWaitsOfThoseWhoMayReadIt) {
  const Told owner = nothing();
  const Told stranger = nothing();
  const Told other_name = nothing();
  ASSERT_TRUE(add("a", 1000, 1, owner).ok());
  ASSERT_TRUE(add("a", 1001, 2, stranger).ok());
  ASSERT_TRUE(add("ab", 1000, 1, other_name).ok());
  waits_.created("a", {1000, 1000, 0600});
  ASSERT_EQ(owner->size(), 1U);
  EXPECT_TRUE(owner->front().value());
  EXPECT_TRUE(stranger->empty());
  EXPECT_TRUE(other_name->empty());
  waits_.created("a", {1001, 1001, 0644});
  EXPECT_EQ(owner->size(), 1U) << "it was told twice";
  EXPECT_EQ(stranger->size(), 1U);
}

TEST_F(NameWaitsTest, TheEndOfItsSessionEndsAWait) {
  const Told gone = nothing();
  const Told stays = nothing();
  ASSERT_TRUE(add("a", 1000, 1, gone).ok());
  ASSERT_TRUE(add("a", 1000, 2, stays).ok());
  waits_.end_session(SessionId{1});
  ASSERT_EQ(gone->size(), 1U);
  EXPECT_EQ(wire::code_of(gone->front().status()), ErrorCode::kDaemonLost);
  EXPECT_TRUE(stays->empty());
}

TEST_F(NameWaitsTest, TheDaemonsEndEndsAllAndRefusesMore) {
  const Told told = nothing();
  const auto id = add("a", 1000, 1, told);
  ASSERT_TRUE(id.ok());
  waits_.end_all(wire::make_error(ErrorCode::kDaemonUnavailable, "over"));
  waits_.end_all(wire::make_error(ErrorCode::kBusy, "still over"));
  waits_.end(*id, true);
  ASSERT_EQ(told->size(), 1U);
  EXPECT_EQ(wire::code_of(told->front().status()), ErrorCode::kDaemonUnavailable);
  const auto late = add("a", 1000, 1, told);
  EXPECT_EQ(wire::code_of(late.status()), ErrorCode::kDaemonUnavailable);
  EXPECT_EQ(told->size(), 1U);
}

TEST_F(NameWaitsTest, AUidHasItsLimitToItself) {
  const Told told = nothing();
  const auto first = add("a", 1000, 1, told);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(add("b", 1000, 1, told).ok());
  const auto third = add("c", 1000, 1, told);
  EXPECT_EQ(wire::code_of(third.status()), ErrorCode::kQuotaExceeded);
  EXPECT_NE(wire::hint_of(third.status()), "");
  EXPECT_TRUE(add("c", 1001, 1, told).ok());
  waits_.end(*first, false);
  EXPECT_TRUE(add("c", 1000, 1, told).ok());
}

TEST_F(NameWaitsTest, DeadlinesPassInTheirOrder) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<int> order;
  std::promise<void> last;
  const auto add_until = [&](milliseconds delay, int number) {
    NameWait wait;
    wait.name = "a";
    wait.peer.uid = static_cast<uid_t>(number);
    wait.deadline = begin + delay;
    wait.done = [&, delay, number](const absl::StatusOr<bool>& exists) {
      EXPECT_FALSE(exists.value());
      EXPECT_GE(std::chrono::steady_clock::now(), begin + delay);
      order.push_back(number);
      if (number == 3) last.set_value();
    };
    ASSERT_TRUE(waits_.add(std::move(wait)).ok());
  };
  std::thread thread([&] { loop_->run(); });
  add_until(milliseconds(60), 3);
  add_until(milliseconds(20), 1);
  add_until(milliseconds(40), 2);
  EXPECT_EQ(last.get_future().wait_for(seconds(20)), std::future_status::ready);
  loop_->stop();
  thread.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace memlease::server
