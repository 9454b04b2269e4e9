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
      auto& growth = std::get<SegmentPool::Growth>(*creation);
      EXPECT_TRUE(world_.broker.add_memory(growth, SegmentPool::make(gpu_, growth)).ok());
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
  // Of the added slot.
  wire::EventWords& write_event() { return world_.events(writer_, array().rare().write_events)[2]; }
  wire::EventWords& read_event() {
    const Membership& membership = reader_.memberships.at(id_);
    return world_.events(reader_, SessionRows::read_events_of(reader_, membership))[2];
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

TEST_F(SlotGrowthOnAGpu, AWritersWorkKeepsIt) {
  ASSERT_TRUE(add(2).ok());
  publish(2, 2);
  write_event().recorded.store(1);
  publish(3, 0);
  EXPECT_EQ(taken(), 0U);
  write_event().complete.store(1);
  EXPECT_EQ(taken(), 1U);
}

TEST_F(SlotGrowthOnAGpu, AReadersWorkKeepsIt) {
  ASSERT_TRUE(add(2).ok());
  publish(2, 2);
  read_event().recorded.store(1);
  publish(3, 0);
  EXPECT_EQ(taken(), 0U);
  read_event().complete.store(1);
  EXPECT_EQ(taken(), 1U);
}

TEST_F(SlotGrowthOnAGpu, TheDeadReadersWorkIsOver) {
  ASSERT_TRUE(add(2).ok());
  read_event().recorded.store(1);
  world_.broker.exited(reader_.id);
  EXPECT_EQ(taken(), 1U);
}

TEST_F(SlotGrowthOnAGpu, ADeadWritersIncompleteVersionInOneIsPoisoned) {
  ASSERT_TRUE(add(2).ok());
  publish(2, 2);
  write_event().recorded.store(1);
  world_.broker.exited(writer_.id);
  EXPECT_EQ(array().board->poisoned()[2].load(), 2U);
  EXPECT_EQ(wire::unpack_publication(array().takeover->publication.load()).version, 1U);
  EXPECT_TRUE(array().rare().write_events.all_complete());
}

TEST_F(SlotGrowthOnAGpu, AWithdrawnArrayLeavesNothing) {
  ASSERT_TRUE(add(2).ok());
  ASSERT_TRUE(world_.broker.withdraw(keeper_.peer, "u").ok());
  for (Session* session : {&reader_, &writer_, &keeper_}) {
    const wire::SessionId id = session->id;
    world_.broker.hang_up(id, Farewell::kNone);
    world_.broker.exited(id);
  }
  EXPECT_EQ(gpu_.segments, 0);
  EXPECT_EQ(world_.broker.added_slots(), 0U);
}

}  // namespace
}  // namespace memlease::server
