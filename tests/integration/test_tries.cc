// Reads and writes that come to nothing rather than wait: try_read(), try_write().
#include <memlease/memlease.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/pattern.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "tests/support/words.h"

namespace memlease::testing {
namespace {

using ::testing::Le;

constexpr std::chrono::milliseconds kMoment{20};
constexpr std::int64_t kEight = 8;

class Tries : public ::testing::Test {
 protected:
  Client connect(bool strict = false) const {
    ConnectOptions options = options_for(daemon_);
    options.strict = strict;
    return Client::connect(options);
  }
  // Of three slots, or one that may get more.
  Array create(std::uint32_t max_slots = 3, std::uint32_t slots = 3) {
    CreateOptions options = words("a", kEight);
    options.slots = slots;
    options.max_slots = max_slots;
    return client_.create(options);
  }
  // With what the other process looks for.
  static void publish(const Array& array) { publish(array.write()); }
  static void publish(WriteLease lease) {
    Pattern pattern(static_cast<std::uint64_t*>(lease.data()), kEight);
    pattern.fill_first_half(lease.version(), 0);
    pattern.fill_second_half();
    lease.publish();
  }
  // By versions of this process's that hold all slots.
  static std::vector<ReadLease> hold_all(const Array& array) {
    std::vector<ReadLease> held;
    for (std::uint32_t i = 0; i < array.max_slots(); ++i) {
      publish(array);
      held.push_back(array.read());
    }
    return held;
  }
  Answer run(const std::string& command) {
    const Answer answer = other_.ask(command);
    EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
    return answer;
  }

  PrivateDaemon daemon_{{"--log-level=warning"}};
  Peer other_{daemon_.directory()};
  Client client_ = connect();
};

TEST_F(Tries, WriteAsWriteDoes) {
  client_ = Client::connect(daemon_.directory());
  const Array array = create();
  std::optional<WriteLease> lease = array.try_write();
  ASSERT_TRUE(lease);
  *static_cast<std::uint64_t*>(lease->data()) = 5;
  EXPECT_EQ(lease->publish(), 1U);
  const ReadLease read = array.read();
  EXPECT_EQ((read.view<std::uint64_t, 1>()(0)), 5U);
}

TEST_F(Tries, SkipAWriteWithoutACallWhileReadersHoldAllSlots) {
  const Array array = create();
  std::vector<ReadLease> held = hold_all(array);
  const std::uint64_t calls = client_.calls();
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(array.try_write());
  EXPECT_FALSE(array.try_write({kMoment}));
  EXPECT_EQ(client_.calls(), calls);
  EXPECT_EQ(array.version(), 3U);
  held.front().release();
  std::optional<WriteLease> lease = array.try_write();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->publish(), 4U) << "a write that was skipped uses up no number";
}

// The daemon is asked for one at once, and when it has refused it, not in each step.
TEST_F(Tries, GetOneMoreSlotWhereTheArrayMayGrow) {
  const Array array = create(5, 2);
  std::vector<ReadLease> held;
  // A process may hold so many that one that reads beside it gets its share, too.
  for (std::uint32_t i = 0; i < 3; ++i) {
    std::optional<WriteLease> lease = array.try_write();
    ASSERT_TRUE(lease) << i;
    publish(*std::move(lease));
    held.push_back(array.read());
  }
  run("connect");
  run("read a 0 1000");
  publish(array);
  run("read a 0 1000");
  publish(array);
  const std::uint64_t calls = client_.calls();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(array.try_write());
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_THAT(client_.calls() - calls, Le(1 + took / std::chrono::milliseconds(100)));
}

TEST_F(Tries, SkipAWriteWhileAnotherIsUnderWay) {
  const Array array = create();
  publish(array);
  {
    const WriteLease mine = array.write();
    std::thread([&] { EXPECT_FALSE(array.try_write()) << "in this process"; }).join();
    EXPECT_FALSE(array.try_write()) << "in this thread";
  }
  run("connect");
  run("write a 1000");
  EXPECT_FALSE(array.try_write()) << "in another process";
  run("publish a");
  EXPECT_TRUE(array.try_write());
}

TEST_F(Tries, SkipAWriteWhileThisProcessReadsTheOnlySlot) {
  const Array array = create(1, 1);
  publish(array);
  const ReadLease held = array.read();
  EXPECT_FALSE(array.try_write());
  using std::chrono::seconds;
  EXPECT_EQ(error_of([&] { array.write(seconds(0)).drop(); }), ErrorCode::Busy);
  EXPECT_EQ(error_of([&] { array.write(seconds(1000)).drop(); }), ErrorCode::Busy);
}

TEST_F(Tries, OfWritesWaitForReadsOfTheOnlySlotInOtherThreads) {
  constexpr std::uint64_t kVersions = 1000;
  const Array array = create(1, 1);
  std::thread reader([&] {
    for (std::uint64_t seen = 0; seen < kVersions;) seen = array.read({0, seen, {}, {}}).version();
  });
  for (std::uint64_t i = 0; i < kVersions; ++i) {
    EXPECT_EQ(error_of([&] { publish(array); }), std::nullopt) << i;
  }
  reader.join();
}

TEST_F(Tries, ThrowWhatNoWaitWouldCure) {
  const Array array = create(1, 1);
  publish(array);
  array.try_write()->drop();
  EXPECT_EQ(error_of([&] { static_cast<void>(array.try_read()); }), ErrorCode::WriteAborted);
  array.withdraw();
  EXPECT_EQ(error_of([&] { static_cast<void>(array.try_write()); }), ErrorCode::Withdrawn);
  EXPECT_EQ(error_of([&] { static_cast<void>(array.try_read()); }), ErrorCode::Withdrawn);
  array.close();
  EXPECT_EQ(error_of([&] { static_cast<void>(array.try_write()); }), ErrorCode::Closed);
  EXPECT_EQ(error_of([&] { static_cast<void>(array.try_read()); }), ErrorCode::Closed);
}

// Not a try, but for the same reason: who waits for what comes next is told, too, and at once.
TEST_F(Tries, ThrowWhatAWaitForTheNextVersionThrows) {
  const Array array = create(1, 1);
  Follower follower = array.follow();
  array.write().drop();
  EXPECT_EQ(error_of([&] { static_cast<void>(array.read()); }), ErrorCode::WriteAborted);
  EXPECT_EQ(error_of([&] { static_cast<void>(follower.next()); }), ErrorCode::WriteAborted);
  ReadOptions newer;
  newer.newer_than = 1;  // who knows that waits for the next
  newer.timeout = kMoment;
  EXPECT_EQ(error_of([&] { static_cast<void>(array.read(newer)); }), ErrorCode::Timeout);
  publish(array);
  EXPECT_EQ(follower.next().version(), 2U);
  array.write().drop();  // whoever has version 2
  newer.newer_than = 2;
  EXPECT_EQ(error_of([&] { static_cast<void>(array.read(newer)); }), ErrorCode::WriteAborted);
  EXPECT_EQ(error_of([&] { static_cast<void>(array.try_read(newer)); }), ErrorCode::WriteAborted);
  EXPECT_EQ(error_of([&] { static_cast<void>(follower.next()); }), ErrorCode::WriteAborted);
}

TEST_F(Tries, ReadWhatIsThere) {
  const Array array = create();
  EXPECT_FALSE(array.try_read());
  EXPECT_FALSE(array.try_read({0, 0, kMoment}));
  publish(array);
  const std::optional<ReadLease> lease = array.try_read();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->version(), 1U);
  const std::uint64_t calls = client_.calls();
  ReadOptions newer;
  newer.newer_than = 1;
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(array.try_read(newer));
  EXPECT_FALSE(array.try_read({2}));
  publish(array);
  EXPECT_TRUE(array.try_read(newer));
  for (int i = 0; i < 3; ++i) publish(array);
  EXPECT_EQ(error_of([&] { static_cast<void>(array.try_read({2})); }), ErrorCode::VersionGone);
  EXPECT_EQ(client_.calls(), calls);
}

}  // namespace
}  // namespace memlease::testing
