// The arrays that a viewer may see, taken in steps and in parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/core/array_collector.h"
#include "tests/server/core/broker_world.h"

namespace memlease::testing {
namespace {

using server::ArrayCollector;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Kinds = ArrayCollector::Kinds;

constexpr std::size_t kStep = ArrayCollector::kArraysPerStep;

class ArrayCollectorTest : public ::testing::Test {
 protected:
  // u/00000, u/00001, ...
  void create(std::size_t count, std::uint32_t mode = 0604) {
    for (std::size_t i = 0; i < count; ++i) world.create(owner, spec_of(name(i), mode, 1));
  }
  static std::string name(std::size_t i) { return fmt::format("u/{:05}", i); }

  // The next step's names, and those of all steps.
  std::vector<std::string> step() { return names_of(collector.step(world.broker)); }
  std::vector<std::string> all_of(ArrayCollector from) const {
    std::vector<std::string> names;
    while (!from.done()) {
      for (std::string& name : names_of(from.step(world.broker))) names.push_back(std::move(name));
    }
    return names;
  }
  static std::vector<std::string> names_of(const std::vector<ArrayCollector::Found>& found) {
    std::vector<std::string> names;
    for (const auto& one : found) names.push_back(one.name + (one.withdrawn ? " withdrawn" : ""));
    return names;
  }
  // Withdrawn, but open in another session.
  wire::ArrayId hold_withdrawn(const std::string& name) {
    const wire::ArrayId id = world.create(owner, spec_of(name, 0604));
    world.open(holder, name);
    world.subscribe(holder, id).holds()[0].store(1);
    EXPECT_TRUE(world.broker.withdraw(owner.peer, name).ok());
    return id;
  }

  BrokerWorld world;
  server::Session& owner = world.connect(1000);
  server::Session& holder = world.connect(1002);
  ArrayCollector collector{peer_of(1001)};
};

TEST_F(ArrayCollectorTest, GivesWhatTheViewerMayReadInOrder) {
  world.create(owner, spec_of("sim/b", 0604));
  world.create(owner, spec_of("sim/a", 0604));
  world.create(owner, spec_of("sim/secret"));
  world.create(owner, spec_of("other", 0604));
  EXPECT_THAT(world.names(peer_of(1001)), ElementsAre("other", "sim/a", "sim/b"));
  EXPECT_THAT(world.names(peer_of(1000)), ElementsAre("other", "sim/a", "sim/b", "sim/secret"));
}

TEST_F(ArrayCollectorTest, IsDoneAtOnceWhereThereIsNothing) {
  EXPECT_THAT(step(), IsEmpty());
  EXPECT_TRUE(collector.done());
}

TEST_F(ArrayCollectorTest, AStepIsBoundedByWhatItLooksAt) {
  create(kStep + 1, 0600);
  world.create(owner, spec_of("v", 0604));
  EXPECT_THAT(step(), IsEmpty()) << "none of these is for the viewer";
  EXPECT_FALSE(collector.done());
  EXPECT_THAT(step(), ElementsAre("v"));
  EXPECT_TRUE(collector.done());
}

TEST_F(ArrayCollectorTest, WhatComesAndGoesBetweenStepsCostsNoOtherItsPlace) {
  create(kStep + 2);
  EXPECT_EQ(step().size(), kStep);
  ASSERT_TRUE(world.broker.withdraw(owner.peer, name(kStep - 1)).ok());  // where the step ended
  ASSERT_TRUE(world.broker.withdraw(owner.peer, name(kStep)).ok());
  world.create(owner, spec_of("a", 0604));
  world.create(owner, spec_of("v", 0604));
  EXPECT_THAT(step(), ElementsAre(name(kStep + 1), "v"));
  EXPECT_TRUE(collector.done());
}

TEST_F(ArrayCollectorTest, GoesOnAtAPlaceAlsoWhereTheArrayOfThatPlaceHasGone) {
  create(kStep + 2);
  EXPECT_EQ(step().size(), kStep);
  ASSERT_TRUE(world.broker.withdraw(owner.peer, name(kStep - 1)).ok());
  EXPECT_THAT(all_of(ArrayCollector(peer_of(1001), Kinds::kHomes, "", collector.place())),
              ElementsAre(name(kStep), name(kStep + 1)));
}

TEST_F(ArrayCollectorTest, LooksAtNoNameThatDoesNotBeginAsThoseThatAreWanted) {
  create(kStep + 2);
  for (const char* other : {"a", "v", "v/1", "v/2", "w"}) {
    world.create(owner, spec_of(other, 0604));
  }
  ArrayCollector some(peer_of(1001), Kinds::kHomes, "v/");
  EXPECT_THAT(names_of(some.step(world.broker)), ElementsAre("v/1", "v/2"));
  EXPECT_TRUE(some.done());
  EXPECT_THAT(all_of(ArrayCollector(peer_of(1001), Kinds::kHomes, "v/", "v/1")),
              ElementsAre("v/2"));
}

TEST_F(ArrayCollectorTest, ArraysWithoutANameFollowThoseWithOne) {
  const wire::ArrayId first = hold_withdrawn("z");
  hold_withdrawn("y");
  world.create(owner, spec_of("y", 0604));
  world.create(owner, spec_of("secret"));
  EXPECT_THAT(all_of(ArrayCollector(peer_of(1001), Kinds::kNamed)), ElementsAre("y"));
  EXPECT_THAT(all_of(ArrayCollector(peer_of(1001), Kinds::kAll)),
              ElementsAre("y", "z withdrawn", "y withdrawn"));
  EXPECT_THAT(all_of(ArrayCollector(peer_of(1001), Kinds::kAll, "y")),
              ElementsAre("y", "y withdrawn"));
  const ArrayCollector::Found found{first, "z", true};
  EXPECT_THAT(all_of(ArrayCollector(peer_of(1001), Kinds::kAll, "", found.place())),
              ElementsAre("y withdrawn"));
  EXPECT_THAT(all_of(ArrayCollector(peer_of(1001), Kinds::kAll, "", "#what is no place")),
              ElementsAre("z withdrawn", "y withdrawn"));
}

TEST_F(ArrayCollectorTest, FindsWhatItHasGivenAsLongAsThatIsTrue) {
  const wire::ArrayId id = world.create(owner, spec_of("u", 0604));
  const ArrayCollector::Found found{id, "u", false};
  ASSERT_NE(collector.find(world.broker, found), nullptr);
  EXPECT_EQ(collector.find(world.broker, found)->id, id);
  EXPECT_EQ(ArrayCollector(peer_of(1001)).find(world.broker, {wire::ArrayId{99}, "u", false}),
            nullptr);
  world.open(holder, "u");
  world.subscribe(holder, id).holds()[0].store(1);
  ASSERT_TRUE(world.broker.withdraw(owner.peer, "u").ok());
  EXPECT_EQ(collector.find(world.broker, found), nullptr) << "it is listed without its name now";
  EXPECT_NE(collector.find(world.broker, {id, "u", true}), nullptr) << "the control";
}

}  // namespace
}  // namespace memlease::testing
