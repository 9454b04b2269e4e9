// An open that subscribes, too: what it gives, and that a row which is never used costs little.
#include <string>

#include "gtest/gtest.h"
#include "server/core/broker.h"
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

class SubscribedOpens : public ::testing::Test {
 protected:
  Broker::Opened open(Session& session, const std::string& name) {
    const auto opened = world.broker.open(session, name, {}, /*subscribes=*/true);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *opened : Broker::Opened();
  }

  FakeGpu gpu{"GPU-1"};  // outlives the broker's segments
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1000);
};

TEST_F(SubscribedOpens, GiveWhatSubscribeWould) {
  const auto id = world.create(owner, spec_of("u"));
  const auto opened = open(reader, "u");
  ASSERT_TRUE(opened.subscribed);
  EXPECT_EQ(opened.subscribed->row, world.broker.subscribe(reader, id)->row);
  const wire::BoardRecord& board = *opened.array->board;
  EXPECT_EQ(board.subscribed.load(), 1U);
  EXPECT_EQ(board.subscribers.entries[0].load(), wire::pack_subscriber(opened.subscribed->row));
  EXPECT_EQ(opened.writer, wire::writer_row_of(board.writer.load()));
}

TEST_F(SubscribedOpens, NameTheRowOfWhoeverWrites) {
  const auto id = world.create(owner, spec_of("u"));
  world.become_writer(owner, id);
  const auto opened = open(reader, "u");
  EXPECT_EQ(opened.writer, wire::writer_row_of(opened.array->board->writer.load()));
  EXPECT_TRUE(world.broker.fetch_file(reader.id, opened.writer.file).ok());
}

TEST_F(SubscribedOpens, AreLeftLikeOthers) {
  const auto id = world.create(owner, spec_of("u"));
  const auto opened = open(reader, "u");
  EXPECT_EQ(open(reader, "u").subscribed->row, opened.subscribed->row);
  ASSERT_TRUE(world.broker.leave(reader, id, 2).ok());
  EXPECT_FALSE(reader.memberships.contains(id));
  EXPECT_EQ(opened.array->board->subscribed.load(), 0U);
  EXPECT_EQ(opened.array->board->subscribers.entries[0].load(), 0U);
  EXPECT_EQ(open(reader, "u").subscribed->row, opened.subscribed->row) << "it is used again";
}

TEST_F(SubscribedOpens, AreDoneByThoseWhoAskAlone) {
  const auto id = world.create(owner, spec_of("u"));
  EXPECT_FALSE(world.broker.open(reader, "u")->subscribed);
  EXPECT_FALSE(reader.memberships.at(id).reader_row);
}

TEST_F(SubscribedOpens, TakeFewPagesHoweverManyArraysAreOpened) {
  constexpr int kManyArrays = 300;
  int subscribed = 0;
  for (int i = 0; i < kManyArrays; ++i) {
    auto spec = spec_of("a" + std::to_string(i));
    spec.max_slots = wire::kMaxSlots;
    world.create(owner, spec);
    if (open(reader, spec.name).subscribed) ++subscribed;
  }
  EXPECT_EQ(reader.pages.begin()->second->page_count(), 2U);
  EXPECT_GT(subscribed, 50);
  EXPECT_LT(subscribed, kManyArrays);
  const auto last = world.broker.catalog().find("a299")->id;
  EXPECT_TRUE(world.broker.subscribe(reader, last).ok()) << "whoever reads it gets a row";
}

TEST_F(SubscribedOpens, DoNotFailForARow) {
  world.create(owner, spec_of("u"));
  world.memory.fail_from(1);
  const auto opened = open(reader, "u");
  EXPECT_FALSE(opened.subscribed);
  EXPECT_EQ(code_of(world.broker.subscribe(reader, opened.array->id).status()),
            ErrorCode::kOutOfMemory);
  world.memory.never_fail();
  EXPECT_TRUE(world.broker.subscribe(reader, opened.array->id).ok());
}

TEST_F(SubscribedOpens, AreThoseOfADeviceToo) {
  world.broker.add_device(gpu, {});
  auto spec = spec_of("u");
  spec.device = "GPU-1";
  auto growth = world.broker.create(owner, spec, false);
  ASSERT_TRUE(growth.ok()) << growth.status();
  auto& missing = std::get<SegmentPool::Growth>(*growth);
  ASSERT_TRUE(world.broker.add_memory(missing, SegmentPool::make(gpu, missing)).ok());
  ASSERT_TRUE(world.broker.create(owner, spec, false).ok());
  EXPECT_TRUE(open(reader, "u").subscribed);
}

}  // namespace
}  // namespace memlease::server
