// Slots that are added while readers hold the others, and taken away when they are idle: the
// daemon's half, on rows that the test fills in as clients would.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/slot_board.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using ::testing::HasSubstr;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

constexpr std::uint64_t kPlaceBytes = 256;  // of one of its slots

// An array of two slots, whose writer has published version 1 in slot 0; a reader that holds
// slot 1.
class SlotGrowthTest : public ::testing::Test {
 protected:
  explicit SlotGrowthTest(std::uint32_t max_slots = 4, std::uint64_t quota_bytes = 0)
      : world_(Broker::Limits{{}, {quota_bytes, 0, 0}}) {
    auto spec = spec_of("u", 0666, 2);
    spec.max_slots = max_slots;
    id_ = world_.create(writer_, spec);
    row_ = &world_.become_writer(writer_, id_);
    publish(1, 0);
    world_.open(reader_, "u");
    holds_ = world_.subscribe(reader_, id_).holds();
    holds_[1].store(1);
  }
  void publish(std::uint64_t version, std::uint32_t slot) {
    row_->slot_words()[slot].store(version);
    row_->publication.store(wire::pack({version, slot}));
    row_->highest_used.store(version);
  }
  const Array& array() { return *world_.broker.catalog().find(id_); }
  std::uint32_t slots() { return array().board->slots.load(); }
  // As the daemon does it: with the memory that is missing.
  absl::Status add(Session& session, std::uint32_t slots) {
    for (;;) {
      auto growth = world_.broker.add_slot(session, id_, slots);
      if (!growth.ok() || !*growth) return growth.status();
      auto added = world_.broker.add_memory(
          **growth, world_.memory.create_segment((*growth)->size_bytes, wire::ReserveKept::kAll));
      if (!added.ok()) return added;
    }
  }
  void expect_refusal(const absl::Status& status, ErrorCode code, const std::string& why) {
    EXPECT_EQ(code_of(status), code) << status;
    EXPECT_THAT(wire::message_of(status), HasSubstr(why));
    EXPECT_EQ(slots(), 2U);
  }

  BrokerWorld world_;
  Session& writer_ = world_.connect(1000);
  Session& reader_ = world_.connect(1001);
  wire::ArrayId id_{0};
  wire::WriterRow* row_ = nullptr;
  wire::HalfWord* holds_ = nullptr;
};

TEST_F(SlotGrowthTest, ASlotIsAddedWhileTheOthersAreHeld) {
  const std::uint32_t events = array().board->event_count.load();
  EXPECT_TRUE(add(writer_, 2).ok());
  EXPECT_EQ(slots(), 3U);
  EXPECT_EQ(array().slots.size(), 3U);
  EXPECT_EQ(wire::unpack_place(array().board->places(array().layout())[0].load()),
            array().slots.back());
  EXPECT_GT(array().board->event_count.load(), events) << "the writer may sleep by now";
  EXPECT_EQ(world_.broker.host().quota.used_by(1000).bytes, 3 * kPlaceBytes);
  EXPECT_EQ(world_.broker.added_slots(), 1U);
}

TEST_F(SlotGrowthTest, TheSecondRequestForTheSameSlotAddsNone) {
  EXPECT_TRUE(add(writer_, 2).ok());
  EXPECT_TRUE(add(writer_, 2).ok());
  EXPECT_EQ(slots(), 3U);
}

TEST_F(SlotGrowthTest, NobodyButTheWriterGetsOne) {
  expect_refusal(add(reader_, 2), ErrorCode::kBusy, "another process may write");
  Session& stranger = world_.connect(1002);
  expect_refusal(add(stranger, 2), ErrorCode::kWithdrawn, "has been withdrawn");
}

TEST_F(SlotGrowthTest, AFreeSlotIsEnough) {
  holds_[1].store(0);
  expect_refusal(add(writer_, 2), ErrorCode::kBusy, "nobody holds slot 1");
}

TEST_F(SlotGrowthTest, ARequestThatFindsAVersionInTheRowIsLate) {
  row_->slot_words()[2].store(1);
  expect_refusal(add(writer_, 2), ErrorCode::kBusy, "has not cleared slot 2");
}

TEST_F(SlotGrowthTest, ThereAreMaxSlotsAtMost) {
  for (std::uint32_t slot = 2; slot < 4; ++slot) {
    ASSERT_TRUE(add(writer_, slot).ok());
    holds_[slot].store(1);
  }
  EXPECT_EQ(code_of(add(writer_, 4)), ErrorCode::kNoFreeSlot);
  EXPECT_EQ(slots(), 4U);
}

// Whoever has been evicted may go on holding what he has, until he exits.
TEST_F(SlotGrowthTest, WhatAnEvictedSessionHoldsDoesNotCount) {
  for (std::uint32_t slot = 2; slot < 4; ++slot) {
    ASSERT_TRUE(add(writer_, slot).ok());
    holds_[slot].store(1);
  }
  Session& other = world_.connect(1002);
  world_.open(other, "u");
  world_.subscribe(other, id_).holds()[2].store(1);
  ASSERT_FALSE(add(writer_, 4).ok());
  ASSERT_TRUE(world_.broker.evict(writer_.peer, reader_.id).ok()) << "all its arrays are his";
  ASSERT_TRUE(add(writer_, 4).ok());
  ASSERT_TRUE(world_.broker.evict(other.peer, other.id).ok());
  EXPECT_EQ(slots(), 5U);
}

TEST_F(SlotGrowthTest, NobodyEndsASessionThatHasOthersArrays) {
  EXPECT_EQ(code_of(world_.broker.evict(reader_.peer, writer_.id)), ErrorCode::kNotFound);
  world_.create(reader_, spec_of("own"));
  EXPECT_EQ(code_of(world_.broker.evict(writer_.peer, reader_.id)), ErrorCode::kNotFound);
  EXPECT_TRUE(world_.broker.evict(testing::peer_of(0), reader_.id).ok());
}

TEST_F(SlotGrowthTest, AnIdleSlotGoesAtTheSecondLook) {
  ASSERT_TRUE(add(writer_, 2).ok());
  publish(2, 2);
  publish(3, 0);
  EXPECT_EQ(world_.broker.take_idle_slots(), 0U);
  EXPECT_EQ(world_.broker.take_idle_slots(), 1U);
  const auto shrunk = world_.happened(server::Happening::kShrunk);
  ASSERT_EQ(shrunk.size(), 1U);
  EXPECT_EQ(shrunk[0].array, "u");
  EXPECT_EQ(shrunk[0].slots, 2U);
  EXPECT_EQ(shrunk[0].bytes, array().slot_bytes);
  EXPECT_EQ(slots(), 2U);
  EXPECT_EQ(world_.broker.host().quota.used_by(1000).bytes, 2 * kPlaceBytes);
  EXPECT_EQ(world_.broker.added_slots(), 0U);
}

// Thousands of arrays, with hundreds of members each, would keep all others from the daemon.
TEST_F(SlotGrowthTest, ALookAtManyArraysIsTakenInTurns) {
  for (const char* name : {"before", "after"}) world_.create(writer_, spec_of(name, 0600, 2));
  ASSERT_TRUE(add(writer_, 2).ok());
  publish(2, 2);
  publish(3, 0);
  for (const std::uint32_t expected : {0U, 1U}) {
    std::uint32_t taken = world_.broker.take_idle_slots(1);
    EXPECT_EQ(world_.broker.looks_for_idle_slots(), expected == 0) << "until none is left";
    for (int turns = 1; world_.broker.looks_for_idle_slots(); ++turns) {
      ASSERT_LT(turns, 10);
      taken += world_.broker.take_idle_slots(1);
    }
    EXPECT_EQ(taken, expected);
  }
}

TEST_F(SlotGrowthTest, ASlotThatIsWrittenBetweenTheLooksIsNotIdle) {
  ASSERT_TRUE(add(writer_, 2).ok());
  for (std::uint64_t version = 2; version < 10; version += 2) {
    publish(version, 2);
    publish(version + 1, 0);
    EXPECT_EQ(world_.broker.take_idle_slots(), 0U);
  }
}

TEST_F(SlotGrowthTest, WhatIsUsedStays) {
  ASSERT_TRUE(add(writer_, 2).ok());
  const auto stays = [&](const char* why) {
    for (int look = 0; look < 3; ++look) {
      EXPECT_EQ(world_.broker.take_idle_slots(), 0U) << why;
      EXPECT_EQ(slots(), 3U) << why;
    }
  };
  publish(2, 2);
  stays("it is current");
  publish(3, 0);
  row_->slot_words()[2].store(2 | wire::kWriting);
  stays("it is marked");
  row_->slot_words()[2].store(4);
  stays("it is about to become current");
  row_->slot_words()[2].store(2);
  holds_[2].store(1);
  stays("it is held");
  holds_[2].store(0);
  static_cast<void>(world_.broker.take_idle_slots());
  EXPECT_EQ(world_.broker.take_idle_slots(), 1U);
}

// The last one first, as it is numbers that the writer knows.
TEST_F(SlotGrowthTest, ASlotBelowOneThatIsUsedStays) {
  ASSERT_TRUE(add(writer_, 2).ok());
  holds_[2].store(1);
  ASSERT_TRUE(add(writer_, 3).ok());
  holds_[3].store(1);
  holds_[2].store(0);
  for (int look = 0; look < 3; ++look) EXPECT_EQ(world_.broker.take_idle_slots(), 0U);
  holds_[3].store(0);
  static_cast<void>(world_.broker.take_idle_slots());
  EXPECT_EQ(world_.broker.take_idle_slots(), 2U);
}

TEST_F(SlotGrowthTest, ADeadReaderHoldsNothing) {
  ASSERT_TRUE(add(writer_, 2).ok());
  holds_[2].store(1);
  world_.broker.exited(reader_.id);
  static_cast<void>(world_.broker.take_idle_slots());
  EXPECT_EQ(world_.broker.take_idle_slots(), 1U);
}

TEST_F(SlotGrowthTest, ADeadWritersVersionInAnAddedSlotStandsOn) {
  ASSERT_TRUE(add(writer_, 2).ok());
  publish(2, 2);
  world_.broker.exited(writer_.id);
  EXPECT_EQ(world_.broker.catalog().find(id_)->withdrawn, true) << "its creator's";
  EXPECT_EQ(array().takeover->slot_words()[2].load(), 2U);
  EXPECT_EQ(array().takeover->publication.load(), wire::pack({2, 2}));
}

TEST_F(SlotGrowthTest, AWithdrawnArrayLeavesNothing) {
  ASSERT_TRUE(add(writer_, 2).ok());
  ASSERT_TRUE(world_.broker.withdraw(writer_.peer, "u").ok());
  world_.broker.exited(reader_.id);
  world_.broker.exited(writer_.id);
  EXPECT_EQ(world_.broker.catalog().size(), 0U);
  EXPECT_EQ(world_.broker.added_slots(), 0U);
  EXPECT_EQ(world_.broker.host().quota.used_by(1000).bytes, 0U);
}

class SlotGrowthOfAFixedArray : public SlotGrowthTest {
 protected:
  SlotGrowthOfAFixedArray() : SlotGrowthTest(2) {}
};
TEST_F(SlotGrowthOfAFixedArray, IsRefused) {
  expect_refusal(add(writer_, 2), ErrorCode::kNoFreeSlot, "may have 2");
}

class SlotGrowthWithinAQuota : public SlotGrowthTest {
 protected:
  SlotGrowthWithinAQuota() : SlotGrowthTest(4, 2 * kPlaceBytes) {}
};
TEST_F(SlotGrowthWithinAQuota, IsRefusedWithItsReason) {
  expect_refusal(add(writer_, 2), ErrorCode::kQuotaExceeded, "bytes on host");
}

}  // namespace
}  // namespace memlease::server
