// Loops over a follower.
#include <memlease/for_bindings.h>
#include <memlease/memlease.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <iterator>
#include <optional>
#include <ranges>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

static_assert(std::input_iterator<Follower::Iterator>);
static_assert(std::ranges::input_range<Follower>);

class FollowLoop : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds kLongWait{20};

  FollowLoop() { array.write().publish(); }
  // What a loop throws.
  static std::optional<ErrorCode> error_of_loop(Follower& follower) {
    return error_of([&] {
      for (ReadLease& lease : follower) lease.release();
    });
  }

  static void publish_once_nothing_is_held(const Array& array) {
    const auto end = std::chrono::steady_clock::now() + kLongWait;
    while (internal::ForBindings::held_slots(array) != 0) {
      if (std::chrono::steady_clock::now() > end) return;
      std::this_thread::yield();
    }
    array.write().publish();
  }

  PrivateDaemon daemon{{"--warm-bytes=0", "--log-level=warning"}};
  Client client = Client::connect(options_for(daemon));
  const Array array = client.create({"a", dtype_of<std::uint64_t>(), {8}});
  std::vector<std::uint64_t> seen;
};

TEST_F(FollowLoop, EndsWhereTheFollowerDoes) {
  FollowOptions options;
  options.until_writer_gone = true;
  for (const ReadLease& lease : array.follow(options)) {
    seen.push_back(lease.version());
    if (seen.size() == 3) {
      array.withdraw();
    } else {
      array.write().publish();
    }
  }
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(FollowLoop, HasNoStepOnceTheFollowerIsClosed) {
  Follower follower = array.follow();
  for (const ReadLease& lease : follower) {
    seen.push_back(lease.version());
    follower.close();
  }
  for (const ReadLease& lease : follower) seen.push_back(lease.version());
  EXPECT_EQ(seen, std::vector<std::uint64_t>{1});
}

TEST_F(FollowLoop, EndsALeaseBeforeItWaitsForTheNextAndWithTheLoop) {
  std::future<void> publishing;
  for (const ReadLease& lease : array.follow(kLongWait)) {
    seen.push_back(lease.version());
    EXPECT_EQ(internal::ForBindings::held_slots(array), 1U);
    if (seen.size() == 3) break;
    publishing = std::async(std::launch::async, [this] { publish_once_nothing_is_held(array); });
  }
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(internal::ForBindings::held_slots(array), 0U);
}

TEST_F(FollowLoop, LeavesALeaseThatIsMovedOut) {
  std::vector<ReadLease> kept;
  for (ReadLease& lease : array.follow()) {
    kept.push_back(std::move(lease));
    if (kept.size() == 2) break;
    array.write().publish();
  }
  EXPECT_EQ(kept.front().version(), 1U);
  EXPECT_FALSE(kept.front().released());
  EXPECT_EQ(kept.back().version(), 2U);
}

TEST_F(FollowLoop, ThrowsWhatIsNoEndAndAnotherLoopGoesOn) {
  Follower follower = array.follow(std::chrono::milliseconds(1));
  EXPECT_EQ(error_of_loop(follower), ErrorCode::Timeout);
  EXPECT_EQ(follower.seen(), 1U);
  array.write().publish();
  const auto again = follower.begin();
  ASSERT_NE(again, follower.end());
  EXPECT_EQ(again->version(), 2U);
  array.withdraw();
  EXPECT_EQ(error_of_loop(follower), ErrorCode::Withdrawn);
}

}  // namespace
}  // namespace memlease::testing
