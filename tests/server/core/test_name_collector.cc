// The names that a viewer may read, taken in steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/core/name_collector.h"
#include "tests/server/core/broker_world.h"

namespace memlease::testing {
namespace {

using server::NameCollector;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kStep = NameCollector::kArraysPerStep;

class NameCollectorTest : public ::testing::Test {
 protected:
  // u/00000, u/00001, ...
  void create(std::size_t count, std::uint32_t mode = 0604) {
    for (std::size_t i = 0; i < count; ++i) world.create(owner, spec_of(name(i), mode, 1));
  }
  static std::string name(std::size_t i) { return fmt::format("u/{:05}", i); }

  BrokerWorld world;
  server::Session& owner = world.connect(1000);
  NameCollector collector{peer_of(1001)};
};

TEST_F(NameCollectorTest, GivesWhatTheViewerMayReadInOrder) {
  world.create(owner, spec_of("sim/b", 0604));
  world.create(owner, spec_of("sim/a", 0604));
  world.create(owner, spec_of("sim/secret"));
  world.create(owner, spec_of("other", 0604));
  EXPECT_THAT(world.names(peer_of(1001)), ElementsAre("other", "sim/a", "sim/b"));
  EXPECT_THAT(world.names(peer_of(1000)), ElementsAre("other", "sim/a", "sim/b", "sim/secret"));
}

TEST_F(NameCollectorTest, IsDoneAtOnceWhereThereIsNothing) {
  EXPECT_THAT(collector.step(world.broker), IsEmpty());
  EXPECT_TRUE(collector.done());
}

TEST_F(NameCollectorTest, AStepIsBoundedByWhatItLooksAt) {
  create(kStep + 1, 0600);
  world.create(owner, spec_of("v", 0604));
  EXPECT_THAT(collector.step(world.broker), IsEmpty()) << "none of these is for the viewer";
  EXPECT_FALSE(collector.done());
  EXPECT_THAT(collector.step(world.broker), ElementsAre("v"));
  EXPECT_TRUE(collector.done());
}

TEST_F(NameCollectorTest, WhatComesAndGoesBetweenStepsCostsNoOtherItsPlace) {
  create(kStep + 2);
  EXPECT_EQ(collector.step(world.broker).size(), kStep);
  ASSERT_TRUE(world.broker.withdraw(owner.peer, name(kStep - 1)).ok());  // where the step ended
  ASSERT_TRUE(world.broker.withdraw(owner.peer, name(kStep)).ok());
  world.create(owner, spec_of("a", 0604));
  world.create(owner, spec_of("v", 0604));
  EXPECT_THAT(collector.step(world.broker), ElementsAre(name(kStep + 1), "v"));
  EXPECT_TRUE(collector.done());
}

}  // namespace
}  // namespace memlease::testing
