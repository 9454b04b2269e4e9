// Every call of the broker is complete or has changed nothing, wherever memory runs out.
#include <algorithm>
#include <functional>

#include "gtest/gtest.h"
#include "server/core/broker.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeMemory;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

// What must not change.
struct State {
  FakeMemory::Live live;
  std::size_t arrays = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t quota_bytes = 0;
  std::uint64_t quota_arrays = 0;
  std::size_t memberships = 0;
  std::size_t created = 0;
  friend bool operator==(const State&, const State&) = default;
};

State state_of(BrokerWorld& world, const Session& session) {
  State state;
  state.live = world.memory.live();
  state.arrays = world.broker.catalog().size();
  state.memory_bytes = world.broker.host().segments.memory_bytes();
  state.quota_bytes = world.broker.host().quota.used_by(session.peer.uid).bytes;
  state.quota_arrays = world.broker.quota().used_by(session.peer.uid).arrays;
  state.memberships = session.memberships.size();
  state.created = session.created.size();
  return state;
}

// Large enough that each slot needs a segment of its own.
wire::ArraySpec large(std::uint32_t mode) {
  auto spec = spec_of("u", mode);
  spec.shape = {5 << 20};
  return spec;
}

// Runs `act` with the 1st, 2nd, ... creation failing, until it gets by without a failure.
// Returns how many runs failed.
std::uint64_t fail_each(BrokerWorld& world, const Session& session, bool all_later_too,
                        const std::function<absl::Status()>& act) {
  std::uint64_t failures = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    const State before = state_of(world, session);
    if (all_later_too) {
      world.memory.fail_from(nth);
    } else {
      world.memory.fail_only(nth);
    }
    const absl::Status status = act();
    const std::uint64_t calls = world.memory.calls();
    world.memory.never_fail();
    if (status.ok()) {
      if (calls < nth) return failures;
      ADD_FAILURE() << "succeeded although creation " << nth << " failed";
      return failures;
    }
    ++failures;
    EXPECT_EQ(code_of(status), ErrorCode::kOutOfMemory) << status;
    EXPECT_TRUE(state_of(world, session) == before) << "creation " << nth << " left a trace";
  }
}

TEST(BrokerOutOfMemory, CreateLeavesNoTraceWhereverItFails) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  const auto create = [&] { return world.try_create(session, large(0600)).status(); };
  // One segment for three slots, a takeover page, a board.
  EXPECT_EQ(fail_each(world, session, true, create), 3U);
  EXPECT_EQ(world.broker.catalog().size(), 1U);
  world.broker.exited(session.id);
  EXPECT_EQ(world.memory.live(), FakeMemory::Live{});
}

TEST(BrokerOutOfMemory, CreateBesideOthersLeavesNoTraceEither) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  world.create(session,
               spec_of("neighbour"));  // its board and takeover page have room for one more
  const auto create = [&] { return world.try_create(session, large(0600)).status(); };
  EXPECT_EQ(fail_each(world, session, true, create), 1U);
}

TEST(BrokerOutOfMemory, OneFailureAloneLeavesNoTrace) {
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    BrokerWorld world;
    Session& session = world.connect(1000);
    const State before = state_of(world, session);
    world.memory.fail_only(nth);
    const auto created = world.try_create(session, spec_of("u"));
    EXPECT_TRUE(created.ok() || state_of(world, session) == before) << nth;
    world.broker.exited(session.id);
    EXPECT_EQ(world.memory.live(), FakeMemory::Live{}) << nth;
  }
}

TEST(BrokerOutOfMemory, SubscribeWorksOnceMemoryIsBack) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  const auto id = world.create(session, spec_of("u"));
  EXPECT_EQ(fail_each(world, session, false,
                      [&] { return world.broker.subscribe(session, id).status(); }),
            1U);
  EXPECT_NE(session.memberships.at(id).entry, nullptr);
}

TEST(BrokerOutOfMemory, AcquiringTheRightWorksOnceMemoryIsBack) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  const auto id = world.create(session, spec_of("u"));
  const auto writer_word = [&] { return world.broker.catalog().find(id)->board->writer.load(); };
  const std::uint64_t before = writer_word();
  world.memory.fail_from(1);
  EXPECT_EQ(code_of(world.broker.acquire_writer(session, id).status()), ErrorCode::kOutOfMemory);
  EXPECT_EQ(writer_word(), before) << "no move began";
  world.memory.never_fail();
  EXPECT_TRUE(world.broker.acquire_writer(session, id).ok());
}

TEST(BrokerOutOfMemory, TheDaemonsOwnLimitCountsLikeTheMachines) {
  BrokerWorld world({{std::uint64_t{48} << 20, 0}, {}});
  Session& session = world.connect(1000);
  const State before = state_of(world, session);
  const auto refused = world.try_create(session, large(0600));  // 3 * 20 MiB
  EXPECT_EQ(code_of(refused.status()), ErrorCode::kOutOfMemory);
  EXPECT_TRUE(state_of(world, session) == before);
}

// Else a create would reserve, give its own first places back for that, and so on for ever.
TEST(BrokerOutOfMemory, MemoryThatItsOwnSlotsStandInMakesNoRoom) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  BrokerWorld world({{7 * kMiB, 7 * kMiB}, {}});
  Session& session = world.connect(1000);
  wire::ArraySpec spec = spec_of("warm", 0600, 1);
  spec.shape = {4 * kMiB / 4};
  world.create(session, spec);
  ASSERT_TRUE(world.broker.withdraw(session.peer, "warm").ok());
  ASSERT_EQ(world.broker.host().segments.warm_bytes(), 4 * kMiB);
  spec.slots = 2;
  EXPECT_EQ(code_of(world.try_create(session, spec).status()), ErrorCode::kOutOfMemory);
  EXPECT_EQ(world.broker.host().segments.warm_bytes(), 4 * kMiB);
}

}  // namespace
}  // namespace memlease::server
