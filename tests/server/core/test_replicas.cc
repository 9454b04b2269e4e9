// Replicas as the daemon has them: whom they belong to, who makes them, and when they go.
#include <map>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using ::testing::ElementsAre;
using testing::FakeGpu;
using ::testing::IsEmpty;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

constexpr const char* kGpu = "GPU-1";

class ReplicasTest : public ::testing::Test {
 protected:
  ReplicasTest() { world.broker.add_device(gpu, {}); }

  absl::StatusOr<Broker::Opened> try_open(Session& session, wire::ArrayId home) {
    for (;;) {
      auto creation = world.broker.open_replica(session, home, std::string(kGpu));
      if (!creation.ok()) return creation.status();
      if (auto* opened = std::get_if<Broker::Opened>(&*creation)) return *opened;
      auto& growth = std::get<SegmentPool::Growth>(*creation);
      EXPECT_TRUE(world.broker.add_memory(growth, SegmentPool::make(gpu, growth)).ok());
    }
  }
  wire::ArrayId open(Session& session, wire::ArrayId home) {
    const auto opened = try_open(session, home);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened->array->id;
  }
  const Array& array(wire::ArrayId id) { return *world.broker.catalog().find(id); }
  // As its writer, which the session becomes.
  void publish(Session& session, wire::ArrayId id, std::uint64_t version) {
    wire::WriterRow*& known = rows[id];
    if (known == nullptr) known = &world.become_writer(session, id);
    wire::WriterRow& row = *known;
    row.highest_used.store(version);
    row.slot_words()[0].store(version);
    row.publication.store(wire::pack({version, 0}));
  }

  FakeGpu gpu{kGpu};  // outlives the broker's segments
  BrokerWorld world;
  std::map<wire::ArrayId, wire::WriterRow*> rows;  // of the arrays' writers
};

TEST_F(ReplicasTest, AreOfTheirHomesSpecAndOwnerOnAnotherDevice) {
  Session& owner = world.connect(1000);
  const auto home = world.create(owner, spec_of("u", 0606));
  Session& other = world.connect(1001);
  world.open(other, "u");
  const Array& replica = array(open(other, home));
  EXPECT_EQ(replica.name, "u@GPU-1");
  EXPECT_EQ(replica.kind->device, kGpu);
  EXPECT_EQ(replica.kind->shape, array(home).kind->shape);
  EXPECT_EQ(replica.domain.uid, 1000U);
  EXPECT_EQ(replica.rare().home, home);
  EXPECT_EQ(open(owner, home), replica.id) << "there is one for all";
  EXPECT_THAT(world.names(peer_of(1000)), ElementsAre("u"));
}

TEST_F(ReplicasTest, AreMadeByThoseWhoMayWriteAndOpenedByThoseWhoMayRead) {
  Session& owner = world.connect(1000);
  const auto home = world.create(owner, spec_of("u", 0604));
  Session& other = world.connect(1001);
  world.open(other, "u");
  EXPECT_EQ(code_of(try_open(other, home).status()), ErrorCode::kDenied);
  open(owner, home);
  EXPECT_TRUE(try_open(other, home).ok());
}

TEST_F(ReplicasTest, AreRefusedWhereTheyMakeNoSense) {
  Session& owner = world.connect(1000);
  const auto home = world.create(owner, spec_of("u"));
  const auto replica = open(owner, home);
  const auto on = [&](wire::ArrayId id, const char* device) {
    return code_of(world.broker.open_replica(owner, id, std::string(device)).status());
  };
  EXPECT_EQ(on(home, "host"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(on(home, "GPU-2"), ErrorCode::kUnsupported);
  EXPECT_EQ(on(replica, "host"), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(world.broker.write_elsewhere(owner, home)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of(world.broker.open_replica(owner, home, 5U).status()), ErrorCode::kNotFound);
}

TEST_F(ReplicasTest, ThatAreWrittenAreTheirBitOnTheHomesBoardUntilTheyGo) {
  Session& owner = world.connect(1000);
  const auto home = world.create(owner, spec_of("u"));
  const auto replica = open(owner, home);
  EXPECT_EQ(array(home).board->elsewhere.load(), 0U);
  const auto events = array(home).board->event_count.load();
  ASSERT_TRUE(world.broker.write_elsewhere(owner, replica).ok());
  EXPECT_EQ(array(home).board->elsewhere.load(), 1U);
  EXPECT_GT(array(home).board->event_count.load(), events) << "who waits at home looks again";
  EXPECT_EQ(world.broker.open_replica(owner, home, 0U)->array->id, replica);
  ASSERT_TRUE(world.broker.withdraw(peer_of(1000), "u@GPU-1").ok());
  EXPECT_EQ(array(home).board->elsewhere.load(), 0U);
}

TEST_F(ReplicasTest, GoOnceNobodyHasThemOpenUnlessTheirHomeLacksWhatTheyHave) {
  Session& owner = world.connect(1000);
  const auto home = world.create(owner, spec_of("u"));
  const auto replica = open(owner, home);
  publish(owner, home, 1);
  publish(owner, replica, 2);
  EXPECT_EQ(code_of(world.broker.withdraw(peer_of(1000), "u@GPU-1")), ErrorCode::kBusy);
  ASSERT_TRUE(world.broker.leave(owner, replica, 1).ok());
  EXPECT_TRUE(world.broker.give_back_unused()) << "there is something to look for";
  EXPECT_NE(world.broker.catalog().find(replica), nullptr);
  publish(owner, home, 2);
  EXPECT_FALSE(world.broker.give_back_unused());
  EXPECT_EQ(world.broker.catalog().find(replica), nullptr);
  EXPECT_THAT(array(home).rare().replicas, IsEmpty());
  EXPECT_TRUE(world.broker.exists(peer_of(1000), "u"));
}

TEST_F(ReplicasTest, StayWhereTheirHomesOnlySlotHasLostWhatTheyHave) {
  Session& owner = world.connect(1000);
  wire::ArraySpec spec = spec_of("u");
  spec.slots = 1;
  const auto home = world.create(owner, spec);
  const auto replica = open(owner, home);
  publish(owner, home, 1);
  publish(owner, replica, 1);  // a copy
  for (const std::uint64_t lost : {1 | wire::kWriting | wire::kHandedOut, std::uint64_t{0}}) {
    rows[home]->slot_words()[0].store(lost);
    EXPECT_EQ(code_of(world.broker.withdraw(peer_of(1000), "u@GPU-1")), ErrorCode::kBusy);
  }
  ASSERT_TRUE(world.broker.leave(owner, replica, 1).ok());
  world.broker.give_back_unused();
  EXPECT_NE(world.broker.catalog().find(replica), nullptr);
  publish(owner, home, 2);
  world.broker.give_back_unused();
  EXPECT_EQ(world.broker.catalog().find(replica), nullptr);
}

TEST_F(ReplicasTest, GoWithTheirHome) {
  Session& owner = world.connect(1000);
  const auto home = world.create(owner, spec_of("u"));
  const auto replica = open(owner, home);
  ASSERT_TRUE(world.broker.withdraw(peer_of(1000), "u").ok());
  EXPECT_TRUE(array(replica).withdrawn);
  EXPECT_TRUE(world.broker.leave(owner, replica, 1).ok());
  EXPECT_EQ(world.broker.catalog().size(), 0U);
}

TEST_F(ReplicasTest, AreChargedToTheirOwner) {
  Session& owner = world.connect(1000);
  const auto home = world.create(owner, spec_of("u"));
  const auto used = [&] { return world.broker.quota().used_by(1000).arrays; };
  EXPECT_EQ(used(), 1U);
  const auto replica = open(owner, home);
  EXPECT_EQ(used(), 2U);
  ASSERT_TRUE(world.broker.leave(owner, replica, 1).ok());
  world.broker.give_back_unused();
  EXPECT_EQ(used(), 1U);
}

}  // namespace
}  // namespace memlease::server
