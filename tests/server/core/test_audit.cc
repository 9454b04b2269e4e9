// The daemon's audit of its own books: nothing is wrong whatever has been done, and what is spoilt
// is found.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/audit.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"
#include "wire/attributes.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using ::testing::Contains;
using ::testing::Each;
using testing::FakeGpu;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::spec_of;

constexpr uid_t kUser = 1000;
constexpr uid_t kOther = 1001;
constexpr const char* kGpu = "GPU-1";

// Some of everything: arrays of two users, a replica, added slots, attributes, a writer and
// another who asks, readers, rows that were given back, and somebody who waits for a name.
class AuditTest : public ::testing::Test {
 protected:
  AuditTest() {
    world.broker.add_device(gpu, {});
    EXPECT_TRUE(world.broker.connected(kOther).ok());
    EXPECT_TRUE(world.broker.connected(kOther).ok());
    auto spec = spec_of("a", 0666);
    spec.max_slots = 4;
    wire::Attributes attributes;
    attributes["unit"] = std::string("m");
    const auto opened = world.try_create(session, spec, false,
                                         std::make_shared<const wire::Attributes>(attributes));
    EXPECT_TRUE(opened.ok()) << opened.status();
    a = opened->array->id;
    b = world.create(other, spec_of("b", 0644));
    world.open(other, "a");
    world.open(session, "b");
    world.subscribe(other, a);
    world.subscribe(session, b);
    world.become_writer(session, a);
    EXPECT_TRUE(world.broker.acquire_writer(other, a).ok());
    const wire::ArrayId gone = world.create(session, spec_of("gone"));
    world.subscribe(session, gone);
    EXPECT_TRUE(world.broker.leave(session, gone, 1).ok());
    EXPECT_TRUE(world.broker.creations("later").ok());
    open_replica();
  }

  void open_replica() {
    for (;;) {
      auto creation = world.broker.open_replica(session, a, std::string(kGpu));
      ASSERT_TRUE(creation.ok()) << creation.status();
      if (std::holds_alternative<Broker::Opened>(*creation)) return;
      auto& growth = std::get<SegmentPool::Growth>(*creation);
      ASSERT_THAT(found(), IsEmpty()) << "while memory is made";
      ASSERT_TRUE(world.broker.add_memory(growth, SegmentPool::make(gpu, growth)).ok());
    }
  }
  std::vector<std::string> found() const { return audit(world.broker).violations; }
  Array& array(wire::ArrayId id) { return *world.broker.catalog().find(id); }

  FakeGpu gpu{kGpu};  // outlives the broker's segments
  BrokerWorld world;
  Session& session = world.connect(kUser);
  Session& other = world.connect(kOther);
  wire::ArrayId a{0};
  wire::ArrayId b{0};
};

TEST_F(AuditTest, FindsNothingWrongAndSaysWhatItLookedAt) {
  const Audit all = audit(world.broker);
  EXPECT_THAT(all.violations, IsEmpty());
  EXPECT_EQ(all.wrong, 0U);
  EXPECT_EQ(all.arrays, 4U);
  EXPECT_EQ(all.sessions, 2U);
  EXPECT_EQ(all.memberships, 5U);
  EXPECT_GT(all.places, 20U);
  EXPECT_GE(all.files, 8U);
  world.broker.exited(session.id);
  EXPECT_THAT(found(), IsEmpty()) << "once the creator has died";
  world.broker.exited(other.id);
  EXPECT_THAT(found(), IsEmpty()) << "once nobody is left";
}

// ---- What is spoilt, one thing each.

TEST_F(AuditTest, FindsAChargeThatNothingCauses) {
  const auto stray = world.broker.account(kUser).charge(Resource::kDescriptors, 2);
  ASSERT_TRUE(stray.ok());
  EXPECT_THAT(found(), Contains(HasSubstr("uid 1000 is charged")));
  EXPECT_THAT(found(), Each(HasSubstr("descriptors")));
}

TEST_F(AuditTest, FindsAnArrayThatIsNotCharged) {
  Charges kept;
  std::swap(kept, array(b).charges);
  EXPECT_THAT(found(), Contains("'b' is not charged what it costs uid 1001"));
  std::swap(kept, array(b).charges);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(AuditTest, FindsAnArrayThatAnotherIsChargedFor) {
  std::swap(array(a).charges.front(), array(b).charges.front());
  EXPECT_THAT(found(), ::testing::UnorderedElementsAre(HasSubstr("'a' is not charged"),
                                                       HasSubstr("'b' is not charged")))
      << "the sums are right";
}

TEST_F(AuditTest, FindsASessionThatIsNotCharged) {
  session.session_charge = {};
  EXPECT_THAT(found(), Contains("session 1 is not charged what it costs uid 1000"));
}

TEST_F(AuditTest, FindsPlacesThatOverlap) {
  const wire::FileRange at = std::exchange(array(b).slots[1], array(b).slots[0]);
  EXPECT_THAT(found(), Contains(HasSubstr("overlaps")));
  array(b).slots[1] = at;
}

TEST_F(AuditTest, FindsAPlaceInAnothersSegment) {
  std::swap(array(b).slots[1], array(a).slots[1]);
  EXPECT_THAT(found(), Contains(HasSubstr("is in a file for something else")));
  std::swap(array(b).slots[1], array(a).slots[1]);
}

TEST_F(AuditTest, FindsAMemberThatHasNothingOpen) {
  array(b).members.push_back(wire::SessionId{77});
  EXPECT_THAT(found(), Contains("'b' has member 77, which does not have it open"));
  array(b).members.pop_back();
}

TEST_F(AuditTest, FindsAnOpenThatItsArrayDoesNotKnow) {
  auto& members = array(b).members;
  members.erase(std::ranges::find(members, session.id));
  EXPECT_THAT(found(), Contains(HasSubstr("which does not know it")));
  members.push_back(session.id);
}

TEST_F(AuditTest, FindsRowsThatAreLost) {
  const auto row = std::exchange(session.memberships.at(a).writer_row, RowPlace());
  EXPECT_THAT(found(), Contains("the writer of 'a' has no row"));
  EXPECT_THAT(found(), Contains(HasSubstr("are said to be used")));
  session.memberships.at(a).writer_row = row;
}

TEST_F(AuditTest, FindsABoardThatSaysSomethingElse) {
  wire::BoardRecord& board = *array(b).board;
  world.broker.rows().files().change(array(b).board_at, [&](std::byte*) {
    board.subscribed.store(board.subscribed.load() + 1);
    board.slots.store(board.slots.load() - 1);
    board.writer.store(board.writer.load() ^ wire::kWriterVacant);
  });
  EXPECT_THAT(found(), Contains("'b' has 1 readers; its board lists 1 and counts 2"));
  EXPECT_THAT(found(), Contains(HasSubstr("what it is and how many slots it has")));
  EXPECT_THAT(found(), Contains(HasSubstr("does not say what goes on")));
}

TEST_F(AuditTest, FindsANameThatLeadsNowhere) {
  array(b).withdrawn = true;
  EXPECT_THAT(found(), Contains("'b' has been withdrawn and is there for nobody"));
  array(b).withdrawn = false;
}

TEST_F(AuditTest, KeepsAHundredViolationsAndCountsAll) {
  for (int i = 0; i < 150; ++i) {
    const wire::ArrayId id = world.create(session, spec_of("many/" + std::to_string(i)));
    array(id).slot_bytes = 1 << 20;
  }
  const Audit all = audit(world.broker);
  EXPECT_EQ(all.violations.size(), Audit::kMostViolations);
  EXPECT_GE(all.wrong, 150U);
  for (int i = 0; i < 150; ++i) {
    Array& spoilt = *world.broker.catalog().find("many/" + std::to_string(i));
    spoilt.slot_bytes = wire::size_bytes_of(*spoilt.kind);
  }
}

}  // namespace
}  // namespace memlease::server
