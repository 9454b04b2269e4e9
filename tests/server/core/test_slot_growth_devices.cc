// Slots that are added to an array on a device: what orders the work on them, and that nobody else
// gets their bytes before that work is over.
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeGpu;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

// An array of two slots, whose writer has published version 1 in slot 0; a reader that holds
// slot 1.
class SlotGrowthOnAGpu : public ::testing::Test {
 protected:
  SlotGrowthOnAGpu() {
    world_.broker.add_device(gpu_, {});
    id_ = create("u", 2);
    row_ = &world_.become_writer(writer_, id_);
    publish(1, 0);
    world_.open(reader_, "u");
    read_row_ = world_.broker.subscribe(reader_, id_)->row;
    holds_ = world_.reader_row(reader_, read_row_).holds();
    holds_[1].store(1);
  }

  wire::ArrayId create(const std::string& name, std::uint32_t slots) {
    auto spec = spec_of(name, 0666, slots);
    spec.device = "GPU-1";
    spec.max_slots = 5;
    for (;;) {
      auto creation = world_.broker.create(keeper_, spec, false);
      EXPECT_TRUE(creation.ok()) << creation.status();
      if (auto* opened = std::get_if<Broker::Opened>(&*creation)) {
        world_.open(writer_, name);
        return opened->array->id;
      }
      const auto& growth = std::get<SegmentPool::Growth>(*creation);
      EXPECT_TRUE(world_.broker.add_memory(growth, gpu_.create_segment(growth.size_bytes)).ok());
    }
  }
  void publish(std::uint64_t version, std::uint32_t slot) {
    row_->slot_words()[slot].store(version);
    row_->publication.store(wire::pack({version, slot}));
    row_->highest_used.store(version);
  }
  const Array& array() { return *world_.broker.catalog().find(id_); }
  // All fits into the segment that is there.
  absl::Status add(std::uint32_t slots) {
    return world_.broker.add_slot(writer_, id_, slots).status();
  }
  // Two looks.
  std::uint32_t taken() {
    static_cast<void>(world_.broker.take_idle_slots());
    return world_.broker.take_idle_slots();
  }
  static std::uint8_t number_of(const std::optional<wire::DeviceHandle>& event) {
    EXPECT_TRUE(event.has_value());
    return event ? (*event)[0] : 0;
  }
  Broker::SlotEvents events(Session& session, bool reads) {
    const auto events = world_.broker.slot_events(session, id_, 2, reads);
    EXPECT_TRUE(events.ok()) << events.status();
    return events.ok() ? *events : Broker::SlotEvents();
  }
  absl::StatusOr<std::vector<wire::DeviceHandle>> imported() {
    return world_.broker.imports().open_events(writer_, {read_row_, 2});
  }

  FakeGpu gpu_{"GPU-1"};  // outlives the broker's segments
  BrokerWorld world_;
  Session& keeper_ = world_.connect(1000);
  Session& writer_ = world_.connect(1000);
  Session& reader_ = world_.connect(1001);
  wire::ArrayId id_{0};
  wire::WriterRow* row_ = nullptr;
  wire::RowRef read_row_;
  wire::HalfWord* holds_ = nullptr;
};

TEST_F(SlotGrowthOnAGpu, AnAddedSlotHasAnEventOfItsOwn) {
  EXPECT_EQ(gpu_.events, 4) << "of the array's slots, and of the reader's row";
  ASSERT_TRUE(add(2).ok());
  EXPECT_EQ(gpu_.events, 5);
  EXPECT_EQ(array().write_events->handles().size(), 2U) << "those of the regular slots";
  const Broker::SlotEvents read = events(reader_, true);
  EXPECT_EQ(gpu_.events, 6) << "made when the reader comes to use the slot";
  EXPECT_EQ(number_of(events(writer_, false).write), number_of(read.write));
  EXPECT_EQ(events(writer_, false).read, std::nullopt);
  EXPECT_EQ(imported()->at(0), *read.read) << "what a writer waits for";
}

TEST_F(SlotGrowthOnAGpu, AWritersWorkKeepsIt) {
  ASSERT_TRUE(add(2).ok());
  publish(2, 2);
  gpu_.pending.insert(number_of(events(writer_, false).write));
  publish(3, 0);
  EXPECT_EQ(taken(), 0U);
  gpu_.pending.clear();
  EXPECT_EQ(taken(), 1U);
}

TEST_F(SlotGrowthOnAGpu, AReadersWorkKeepsIt) {
  ASSERT_TRUE(add(2).ok());
  publish(2, 2);
  gpu_.pending.insert(number_of(events(reader_, true).read));
  publish(3, 0);
  EXPECT_EQ(taken(), 0U);
  gpu_.pending.clear();
  EXPECT_EQ(taken(), 1U);
}

TEST_F(SlotGrowthOnAGpu, TheDeadReadersWorkIsOver) {
  ASSERT_TRUE(add(2).ok());
  gpu_.pending.insert(number_of(events(reader_, true).read));
  world_.broker.exited(reader_.id);
  EXPECT_EQ(taken(), 1U);
}

// A slot of this number comes again, and whoever knew its event still has it open.
TEST_F(SlotGrowthOnAGpu, EventsStayWhenTheirSlotGoes) {
  ASSERT_TRUE(add(2).ok());
  const Broker::SlotEvents before = events(reader_, true);
  ASSERT_EQ(taken(), 1U);
  EXPECT_EQ(code_of(world_.broker.slot_events(reader_, id_, 2, true).status()),
            ErrorCode::kInvalidArgument);
  ASSERT_TRUE(add(2).ok());
  EXPECT_EQ(number_of(events(reader_, true).write), number_of(before.write));
  EXPECT_EQ(number_of(events(reader_, true).read), number_of(before.read));
  EXPECT_EQ(gpu_.events, 6);
}

TEST_F(SlotGrowthOnAGpu, WithoutAnEventThereIsNoSlot) {
  gpu_.events_left = 0;
  EXPECT_EQ(code_of(add(2)), ErrorCode::kOutOfMemory);
  EXPECT_EQ(array().slots.size(), 2U);
  EXPECT_EQ(world_.broker.added_slots(), 0U);
  EXPECT_EQ(world_.broker.devices().all().at("GPU-1").quota.used_by(1000).bytes,
            2 * gpu_.alignment_bytes(array().slot_bytes));
  gpu_.events_left = 1;
  EXPECT_TRUE(add(2).ok());
}

// A writer may have asked for it, and been told that there is none to wait for.
TEST_F(SlotGrowthOnAGpu, AReaderForWhichNoEventIsLeftDoesWithoutForLife) {
  ASSERT_TRUE(add(2).ok());
  gpu_.events_left = 0;
  const Broker::SlotEvents without = events(reader_, true);
  EXPECT_EQ(without.read, std::nullopt);
  EXPECT_EQ(world_.happened(Happening::kDegraded).size(), 1U);
  gpu_.events_left = 2;
  EXPECT_EQ(events(reader_, true).read, std::nullopt);
  EXPECT_TRUE(imported()->empty());
  EXPECT_EQ(gpu_.events, 5);
}

TEST_F(SlotGrowthOnAGpu, AWriterThatAsksFirstIsToldOfTheSameEvent) {
  ASSERT_TRUE(add(2).ok());
  const auto first = imported();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(events(reader_, true).read, first->at(0));
}

// A peer knows the events of a row's regular slots as one.
TEST_F(SlotGrowthOnAGpu, ARowIsUsedAgainForAsManyRegularSlots) {
  holds_[1].store(0);
  ASSERT_TRUE(world_.broker.leave(reader_, id_, 1).ok());
  const auto others = create("others", 3);
  world_.open(reader_, "others");
  const auto other_row = world_.broker.subscribe(reader_, others);
  ASSERT_TRUE(other_row.ok());
  EXPECT_NE(other_row->row, read_row_);
  EXPECT_EQ(other_row->read_events->handles().size(), 3U);
  const auto same = create("same", 2);
  world_.open(reader_, "same");
  EXPECT_EQ(world_.broker.subscribe(reader_, same)->row, read_row_);
}

TEST_F(SlotGrowthOnAGpu, ADeadWritersIncompleteVersionInOneIsPoisoned) {
  ASSERT_TRUE(add(2).ok());
  publish(2, 2);
  gpu_.pending.insert(number_of(events(writer_, false).write));
  world_.broker.exited(writer_.id);
  EXPECT_EQ(array().board->poisoned()[2].load(), 2U);
  EXPECT_EQ(wire::unpack_publication(array().takeover->publication.load()).version, 1U);
  EXPECT_TRUE(gpu_.pending.empty());
}

TEST_F(SlotGrowthOnAGpu, AWithdrawnArrayLeavesNothing) {
  ASSERT_TRUE(add(2).ok());
  events(reader_, true);
  ASSERT_TRUE(imported().ok());
  ASSERT_TRUE(world_.broker.withdraw(keeper_.peer, "u").ok());
  for (Session* session : {&reader_, &writer_, &keeper_}) {
    const wire::SessionId id = session->id;
    world_.broker.hang_up(id, false);
    world_.broker.exited(id);
  }
  EXPECT_EQ(gpu_.events, 0);
  EXPECT_EQ(world_.broker.added_slots(), 0U);
}

}  // namespace
}  // namespace memlease::server
