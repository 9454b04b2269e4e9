// Attributes of arrays, as the broker keeps and charges them.
#include <memory>
#include <string>
#include <variant>

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

SharedAttributes units(const std::string& unit) {
  return std::make_shared<const wire::Attributes>(wire::Attributes{{"units", unit}});
}
const std::uint64_t kUnitsBytes = wire::memory_bytes_of(*units("K"));

std::uint64_t host_bytes(const BrokerWorld& world, uid_t uid) {
  return world.broker.host().quota.used_by(uid).bytes;
}

TEST(BrokerAttributes, AreThoseOfTheCreatorForWhoeverOpens) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto made = world.try_create(owner, spec_of("u", 0604), false, units("K"));
  ASSERT_TRUE(made.ok()) << made.status();
  const auto opened = world.broker.open(world.connect(1001), "u");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(*opened->array->rare().attributes, *units("K"));
}

TEST(BrokerAttributes, AskForRoomLikeAnyMemory) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  world.memory.set_room(0);
  int made = 0;
  const auto make = [&](std::size_t bytes) {
    return world.try_create(owner, spec_of(std::to_string(made)), false,
                            units(std::string(bytes, 'K')));
  };
  while (make(20'000).ok()) ASSERT_LT(++made, 20) << "what is small is looked for together";
  EXPECT_EQ(made, 12);
  EXPECT_EQ(code_of(make(20'000).status()), ErrorCode::kOutOfMemory);
  world.memory.set_room(std::uint64_t{1} << 20);
  EXPECT_TRUE(make(20'000).ok());
}

TEST(BrokerAttributes, OfAnArrayThatExistsStay) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  ASSERT_TRUE(world.try_create(owner, spec_of("u"), true, units("K")).ok());
  const std::uint64_t before = host_bytes(world, 1000);
  for (const auto& others : {units("degree"), SharedAttributes()}) {
    const auto again = world.try_create(owner, spec_of("u"), true, others);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_FALSE(again->created);
    EXPECT_EQ(*again->array->rare().attributes, *units("K"));
  }
  EXPECT_EQ(host_bytes(world, 1000), before);
}

TEST(BrokerAttributes, AreValidatedHereToo) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const std::string long_text(wire::kMaxAttributeBytes, 't');
  EXPECT_EQ(code_of(world.try_create(owner, spec_of("u"), false, units(long_text)).status()),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(world.broker.catalog().size(), 0U);
}

TEST(BrokerAttributes, AreChargedToTheCreatorUntilTheArrayHasGone) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  world.create(owner, spec_of("plain"));
  const std::uint64_t plain = host_bytes(world, 1000);
  const auto made = world.try_create(owner, spec_of("u"), false, units("K"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(host_bytes(world, 1000), 2 * plain + kUnitsBytes);
  const wire::ArrayId id = made->array->id;
  ASSERT_TRUE(world.broker.withdraw(owner.peer, "u").ok());
  ASSERT_TRUE(world.broker.leave(owner, id, 1).ok());
  EXPECT_EQ(host_bytes(world, 1000), plain);
}

TEST(BrokerAttributes, CountInTheQuotaAndAreGivenBackWhereItIsExceeded) {
  BrokerWorld probe;
  probe.create(probe.connect(1000), spec_of("u"));
  const std::uint64_t plain = host_bytes(probe, 1000);

  Broker::Limits limits;
  limits.per_uid.bytes = plain + kUnitsBytes - 1;
  BrokerWorld world(limits);
  Session& owner = world.connect(1000);
  const auto refused = world.try_create(owner, spec_of("u"), false, units("K"));
  EXPECT_EQ(code_of(refused.status()), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(host_bytes(world, 1000), 0U);
  EXPECT_EQ(world.broker.quota().used_by(1000).arrays, 0U);
  EXPECT_TRUE(world.try_create(owner, spec_of("u")).ok());
}

// What is made at once keeps within the quota.
TEST(BrokerAttributes, AreChargedWhileMemoryIsMade) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  auto creation = world.broker.create(owner, spec_of("u"), false, units("K"));
  ASSERT_TRUE(creation.ok()) << creation.status();
  ASSERT_TRUE(std::holds_alternative<SegmentPool::Growth>(*creation));
  const std::uint64_t charged = host_bytes(world, 1000);
  auto& growth = std::get<SegmentPool::Growth>(*creation);
  ASSERT_TRUE(world.broker.add_memory(growth, SegmentPool::make(world.memory, growth)).ok());
  ASSERT_TRUE(world.try_create(owner, spec_of("u"), false, units("K")).ok());
  EXPECT_EQ(host_bytes(world, 1000), charged);
}

TEST(BrokerAttributes, OfAReplicaAreItsHomesAndCountOnce) {
  FakeGpu gpu{"GPU-1"};  // outlives the broker's segments
  BrokerWorld world;
  world.broker.add_device(gpu, {});
  Session& owner = world.connect(1000);
  const auto made = world.try_create(owner, spec_of("u"), false, units("K"));
  ASSERT_TRUE(made.ok()) << made.status();
  const std::uint64_t before = host_bytes(world, 1000);
  const auto replica = [&] {
    for (;;) {
      auto creation = world.broker.open_replica(owner, made->array->id, "GPU-1");
      EXPECT_TRUE(creation.ok()) << creation.status();
      if (auto* opened = std::get_if<Broker::Opened>(&*creation)) return *opened;
      auto& growth = std::get<SegmentPool::Growth>(*creation);
      EXPECT_TRUE(world.broker.add_memory(growth, SegmentPool::make(gpu, growth)).ok());
    }
  }();
  EXPECT_EQ(replica.array->rare().attributes, made->array->rare().attributes);
  EXPECT_EQ(host_bytes(world, 1000), before);
}

TEST(BrokerAttributes, OfAnArrayOnAGpuCountInHostMemory) {
  FakeGpu gpu{"GPU-1"};
  BrokerWorld world;
  world.broker.add_device(gpu, {});
  auto spec = spec_of("u");
  spec.device = "GPU-1";
  const auto creation = world.broker.create(world.connect(1000), spec, false, units("K"));
  ASSERT_TRUE(creation.ok()) << creation.status();
  EXPECT_EQ(host_bytes(world, 1000), kUnitsBytes);
}

}  // namespace
}  // namespace memlease::server
