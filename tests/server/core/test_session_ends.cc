// Sessions with many arrays end in slices, and others get their turns in between.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/array_collector.h"
#include "server/core/broker.h"
#include "server/core/session_ends.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeMemory;
using ::testing::IsEmpty;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

constexpr std::size_t kSlice = 3;
constexpr std::size_t kArrays = 10;

class SessionEndsTest : public ::testing::Test {
 protected:
  Session& creator_of_many(uid_t uid = 1000, const std::string& prefix = "many") {
    Session& session = world_.connect(uid);
    for (std::size_t i = 0; i < kArrays; ++i) {
      world_.create(session, spec_of(fmt::format("{}/{}", prefix, i), 0666));
    }
    return session;
  }
  // How many arrays there are still of those that creator_of_many() made.
  std::size_t left(const std::string& prefix = "many") const {
    const auto is_left = [&](const Array* array) {
      return array->name.starts_with(prefix + "/") && !array->withdrawn;
    };
    return static_cast<std::size_t>(std::ranges::count_if(world_.broker.catalog().all(), is_left));
  }
  // Of those, the name of one whose turn has not come.
  std::string waiting() const {
    for (const Array* array : world_.broker.catalog().all()) {
      if (array->name.starts_with("many/")) return array->name;
    }
    ADD_FAILURE() << "none is left";
    return "";
  }
  std::size_t finish() {
    std::size_t slices = 0;
    while (world_.broker.work_off_ends()) ++slices;
    return slices;
  }

  BrokerWorld world_{testing::limits_of_slices(kSlice)};
};

TEST_F(SessionEndsTest, EachCallWorksOffABoundedNumberOfArrays) {
  Session& creator = creator_of_many();
  const wire::SessionId id = creator.id;
  world_.broker.exited(id);
  EXPECT_EQ(left(), kArrays - kSlice) << "the first slice comes at once";
  for (std::size_t before = left(); world_.broker.work_off_ends(); before = left()) {
    EXPECT_EQ(left(), before - std::min(before, kSlice));
  }
  EXPECT_EQ(world_.broker.sessions().find(id), nullptr);
  EXPECT_FALSE(world_.broker.sessions_are_ending());
  EXPECT_TRUE(world_.broker.idle());
  EXPECT_EQ(world_.memory.live(), FakeMemory::Live{});
}

// Each of those who have it open is told of its end, and not of one member's.
TEST_F(SessionEndsTest, AnArrayThatManyHaveOpenIsMoreWorkWhereItEnds) {
  Session& creator = creator_of_many();
  std::vector<Session*> members;
  for (std::size_t i = 0; i < kSlice * SessionEnds::kMembersLikeAnArray; ++i) {
    members.push_back(&world_.connect(1000));
    for (std::size_t k = 0; k < kArrays; ++k) {
      world_.open(*members.back(), fmt::format("many/{}", k));
    }
  }
  world_.broker.exited(members.front()->id);
  EXPECT_EQ(finish(), kArrays / kSlice);
  world_.broker.exited(creator.id);
  EXPECT_EQ(finish(), kArrays - 1);
}

TEST_F(SessionEndsTest, AGoodbyeIsWorkedOffInSlicesToo) {
  Session& creator = creator_of_many();
  EXPECT_FALSE(world_.broker.hang_up(creator.id, Farewell::kGoodbye))
      << "nobody waits for its exit";
  EXPECT_EQ(left(), kArrays - kSlice);
  EXPECT_EQ(finish(), 3U);
  EXPECT_TRUE(world_.broker.idle());
  EXPECT_THAT(world_.happened(Happening::kDied), IsEmpty());
}

// Writers' streams may wait for them. To let these go the daemon makes pages writable, one by one.
TEST(SessionEndsOnGpus, EachCallEndsABoundedNumberOfReads) {
  testing::FakeGpu gpu("GPU-1");
  BrokerWorld world{testing::limits_of_slices(kSlice)};
  world.broker.add_device(gpu, {});
  Session& keeper = world.connect(1000);
  Session& reader = world.connect(1000);
  std::vector<wire::EventWords*> reads;
  for (std::size_t i = 0; i < kArrays; ++i) {
    auto spec = spec_of(fmt::format("many/{}", i));
    spec.device = "GPU-1";
    auto creation = world.broker.create(keeper, spec, false);
    ASSERT_TRUE(creation.ok()) << creation.status();
    if (auto* growth = std::get_if<SegmentPool::Growth>(&*creation)) {
      ASSERT_TRUE(world.broker.add_memory(*growth, SegmentPool::make(gpu, *growth)).ok());
      ASSERT_TRUE(world.broker.create(keeper, spec, false).ok());
    }
    const wire::ArrayId id = world.open(reader, spec.name);
    ASSERT_TRUE(world.broker.subscribe(reader, id).ok());
    const auto row = SessionRows::read_events_of(reader, reader.memberships.at(id));
    reads.push_back(world.events(reader, row));
    reads.back()->recorded.store(1);
  }
  const auto under_way = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(reads, [](const auto* event) { return !event->is_complete(); }));
  };
  world.broker.hang_up(reader.id, Farewell::kNone);
  world.broker.exited(reader.id);
  std::size_t before = under_way();
  EXPECT_GE(before, kArrays - kSlice);
  for (; world.broker.work_off_ends(); before = under_way()) {
    EXPECT_LE(before - under_way(), kSlice);
  }
  EXPECT_EQ(before, 0U);
}

TEST_F(SessionEndsTest, OthersAreServedBetweenTwoSlices) {
  Session& other = world_.connect(1001);
  Session& creator = creator_of_many();
  world_.broker.exited(creator.id);
  for (int i = 0; world_.broker.work_off_ends(); ++i) {
    const std::string name = fmt::format("other/{}", i);
    const auto id = world_.create(other, spec_of(name));
    world_.become_writer(other, id).writing.store(1);
    world_.open(other, name);
  }
  EXPECT_EQ(left("other"), 3U);
}

TEST_F(SessionEndsTest, NoNameThatGoesIsFoundFromTheFirstSliceOn) {
  Session& other = world_.connect(1001);
  Session& creator = creator_of_many();
  const auto credential = testing::credential_of(creator);
  world_.broker.exited(creator.id);
  const std::string name = waiting();
  EXPECT_FALSE(world_.broker.exists(peer_of(0), name));
  EXPECT_THAT(ArrayCollector(peer_of(0)).step(world_.broker), IsEmpty());
  EXPECT_EQ(code_of(world_.broker.open(other, name).status()), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(world_.broker.withdraw(peer_of(1000), name)), ErrorCode::kNotFound);
  EXPECT_FALSE(world_.broker.authenticate(credential, 1000).ok()) << "nor does it speak";
  EXPECT_FALSE(world_.broker.evict(peer_of(0), creator.id).ok());
}

TEST_F(SessionEndsTest, WhatIsPersistentIsFoundAllTheTime) {
  Session& other = world_.connect(1001);
  Session& creator = creator_of_many();
  auto persistent = spec_of("kept", 0666);
  persistent.lifetime = wire::Lifetime::kPersistent;
  world_.create(creator, persistent);
  world_.broker.exited(creator.id);
  do {
    world_.open(other, "kept");
  } while (world_.broker.work_off_ends());
  EXPECT_TRUE(world_.broker.exists(peer_of(0), "kept"));
}

TEST_F(SessionEndsTest, ANameCanBeUsedAgainAtOnceAndTheNewArrayStays) {
  Session& other = world_.connect(1001);
  Session& creator = creator_of_many();
  world_.broker.exited(creator.id);
  const std::string name = waiting();
  const wire::ArrayId old = world_.broker.catalog().find(name)->id;
  // With exist_ok, too: what is there is nobody's any more.
  const auto opened = world_.try_create(other, spec_of(name, 0600, 2), true);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE(opened->created);
  EXPECT_EQ(world_.broker.catalog().find(old), nullptr);
  finish();
  EXPECT_TRUE(world_.broker.exists(peer_of(1001), name));
  EXPECT_EQ(world_.happened(Happening::kDied).at(0).arrays, kArrays) << "it is counted once";
  EXPECT_EQ(world_.happened(Happening::kWithdrawn).size(), kArrays);
}

TEST_F(SessionEndsTest, WhoHasAnArrayOpenKeepsItWhenItsNameIsUsedAgain) {
  Session& reader = world_.connect(1001);
  Session& creator = creator_of_many();
  for (std::size_t i = 0; i < kArrays; ++i) world_.open(reader, fmt::format("many/{}", i));
  world_.broker.exited(creator.id);
  std::string name;
  for (const Array* array : world_.broker.catalog().named()) name = array->name;
  const wire::ArrayId old = world_.broker.catalog().find(name)->id;
  world_.subscribe(reader, old).holds()[0].store(1);
  world_.create(world_.connect(1002), spec_of(name));
  ASSERT_NE(world_.broker.catalog().find(old), nullptr);
  EXPECT_TRUE(world_.broker.catalog().find(old)->withdrawn);
  finish();
  EXPECT_TRUE(world_.broker.in_use());
}

TEST_F(SessionEndsTest, ASecondDeathInTheMiddleTakesTurns) {
  Session& first = creator_of_many(1000, "first");
  Session& second = creator_of_many(1001, "second");
  Session& small = world_.connect(1002);
  world_.create(small, spec_of("small"));
  world_.broker.exited(first.id);
  world_.broker.exited(second.id);
  const wire::SessionId id = small.id;
  world_.broker.exited(id);
  EXPECT_EQ(world_.broker.sessions().find(id), nullptr) << "it waits for nobody's slices";
  ASSERT_TRUE(world_.broker.work_off_ends());
  ASSERT_TRUE(world_.broker.work_off_ends());
  EXPECT_EQ(left("first"), kArrays - 2 * kSlice);
  EXPECT_EQ(left("second"), kArrays - 2 * kSlice);
  finish();
  EXPECT_TRUE(world_.broker.idle());
  EXPECT_EQ(world_.memory.live(), FakeMemory::Live{});
}

TEST_F(SessionEndsTest, TurnsGoByWhoPaysAndNotByHowManyEndsHeHas) {
  for (int i = 0; i < 5; ++i) {
    world_.broker.exited(creator_of_many(1000, fmt::format("others/{}", i)).id);
  }
  world_.broker.exited(creator_of_many(1001, "one").id);
  for (int i = 0; i < 6; ++i) world_.broker.work_off_ends();
  EXPECT_EQ(left("one"), 0U);
  EXPECT_GT(left("others/0"), 0U);
  finish();
  EXPECT_TRUE(world_.broker.idle());
}

TEST_F(SessionEndsTest, WhoHasVeryManyUnderWayIsToComeAgain) {
  Session& owner = creator_of_many();
  const auto end_one_of = [&](uid_t uid) {
    Session& session = world_.connect(uid);
    for (std::size_t k = 0; k <= kSlice; ++k) world_.open(session, fmt::format("many/{}", k));
    world_.broker.exited(session.id);
  };
  for (std::size_t i = 0; i < SessionEnds::kMostUnderWay; ++i) end_one_of(1001);
  EXPECT_EQ(code_of(world_.broker.open_session(peer_of(1001)).status()), ErrorCode::kBusy);
  end_one_of(1002);
  EXPECT_TRUE(world_.broker.work_off_ends());
  EXPECT_TRUE(world_.broker.work_off_ends());
  end_one_of(1001);
  finish();
  world_.broker.exited(owner.id);
  finish();
  EXPECT_TRUE(world_.broker.idle());
}

TEST(SessionEndsInSlices, ThatAreSmallShareOne) {
  BrokerWorld world(testing::limits_of_slices(20));
  std::vector<Session*> sessions;
  for (int i = 0; i < 6; ++i) {
    sessions.push_back(&world.connect(1000));
    for (int k = 0; k < 21; ++k)
      world.create(*sessions.back(), spec_of(fmt::format("{}/{}", i, k)));
  }
  for (Session* const session : sessions) world.broker.exited(session->id);
  EXPECT_TRUE(world.broker.work_off_ends());
  EXPECT_EQ(world.broker.sessions().size(), 3U) << "a session is as much work as eight arrays";
  EXPECT_TRUE(world.broker.work_off_ends());
  EXPECT_FALSE(world.broker.work_off_ends());
  EXPECT_TRUE(world.broker.idle());
}

TEST_F(SessionEndsTest, ItsQuotasComeBackSessionFirst) {
  Broker::Limits limits;
  limits.per_uid = {0, kArrays, 1};
  world_.broker.set_limits(limits, {});
  Session& creator = creator_of_many();
  const Quota& quota = world_.broker.quota();
  world_.broker.exited(creator.id);
  Session& again = world_.connect(1000);
  EXPECT_EQ(quota.used_by(1000).arrays, kArrays - kSlice);
  finish();
  EXPECT_EQ(quota.used_by(1000).arrays, 0U);
  world_.create(again, spec_of("next"));
}

TEST_F(SessionEndsTest, ItsWritersAndHoldersAreLetGoArrayByArray) {
  Session& owner = creator_of_many();
  Session& writer = world_.connect(1001);
  std::vector<const Array*> arrays;
  for (std::size_t i = 0; i < kArrays; ++i) {
    const auto id = world_.open(writer, fmt::format("many/{}", i));
    world_.become_writer(writer, id).writing.store(1);
    arrays.push_back(world_.broker.catalog().find(id));
  }
  const auto written = [&](const Array* array) { return array->writer == writer.id; };
  world_.broker.exited(writer.id);
  EXPECT_EQ(std::ranges::count_if(arrays, written), std::ssize(arrays) - std::ptrdiff_t{kSlice});
  // In between the dead writer is one that does not come to its end.
  const Array& waits = **std::ranges::find_if(arrays, written);
  const auto busy = world_.broker.acquire_writer(owner, waits.id);
  ASSERT_TRUE(busy.ok()) << busy.status();
  EXPECT_EQ(busy->state, WriterAnswer::State::kBusy);
  finish();
  world_.become_writer(owner, waits.id);
  const auto reclaimed = world_.happened(Happening::kReclaimed);
  EXPECT_EQ(reclaimed.size(), kArrays);
  EXPECT_EQ(world_.happened(Happening::kDied).at(0).arrays, kArrays);
}

TEST_F(SessionEndsTest, ACoreThatEndsInTheMiddleReturnsEverything) {
  FakeMemory memory;
  testing::FakeClock clock;
  {
    Broker broker({memory, memory, clock, [](auto) {}, testing::let_go_once},
                  testing::limits_of_slices(1));
    auto opened = broker.open_session(peer_of(1000));
    ASSERT_TRUE(opened.ok());
    Session& session = *broker.sessions().find(opened->session);
    for (const char* name : {"a", "b", "c"}) {
      auto created = broker.create(session, spec_of(name), false);
      ASSERT_TRUE(created.ok()) << created.status();
      auto* growth = std::get_if<SegmentPool::Growth>(&*created);
      if (growth == nullptr) continue;
      ASSERT_TRUE(broker.add_memory(*growth, SegmentPool::make(memory, *growth)).ok());
      ASSERT_TRUE(broker.create(session, spec_of(name), false).ok());
    }
    broker.exited(session.id);
    EXPECT_TRUE(broker.sessions_are_ending());
  }
  EXPECT_EQ(memory.live(), FakeMemory::Live{});
}

}  // namespace
}  // namespace memlease::server
