// Lists leave the core to others while they try a pattern and after each step, and have pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/core/array_collector.h"
#include "server/rpc/array_list.h"
#include "tests/support/fake_service_host.h"

namespace memlease::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using Kinds = server::ArrayCollector::Kinds;

constexpr std::size_t kStep = server::ArrayCollector::kArraysPerStep;

class ArrayList : public ::testing::Test {
 protected:
  void create(const std::string& name, std::uint32_t mode = 0604) {
    host.world.create(owner, spec_of(name, mode, 1));
  }

  // As calls take it, page by page: the names on each page.
  using Pages = std::vector<std::vector<std::string>>;
  Pages pages_of(std::size_t arrays_of_page, server::Matches matches) {
    Pages pages;
    std::string place;
    do {
      server::ArrayCollector from(peer_of(1001), Kinds::kAll, "", place);
      auto& page = pages.emplace_back();
      place = visit_page(host, from, matches, [&](server::Broker&, const server::Array& array) {
        EXPECT_TRUE(host.held());
        page.push_back(array.name);
        return page.size() == arrays_of_page;
      });
    } while (!place.empty());
    return pages;
  }

  FakeServiceHost host;
  server::Session& owner = host.world.connect(1000);
  server::ArrayCollector collector{peer_of(1001)};
};

TEST_F(ArrayList, NobodyWaitsForTheCoreWhileAPatternIsTried) {
  for (std::size_t i = 0; i < kStep + 1; ++i) create(fmt::format("u/{:05}", i));
  std::size_t tried = 0;
  const auto matches = [&](std::string_view /*name*/) {
    EXPECT_FALSE(host.held());
    return ++tried != 0;
  };
  EXPECT_THAT(next_matches(host, collector, matches), SizeIs(kStep));
  EXPECT_THAT(next_matches(host, collector, matches), SizeIs(1));
  EXPECT_EQ(tried, kStep + 1);
  EXPECT_EQ(host.turns, 2) << "and in between others have their turn";
  host.with_broker([&](server::Broker& /*broker*/) { EXPECT_TRUE(host.held()) << "the control"; });
}

TEST_F(ArrayList, APatternIsTriedOnNamesThatTheViewerMayReadAlone) {
  create("shown");
  create("other");
  create("secret", 0600);
  std::vector<std::string> tried;
  const auto matches = [&](std::string_view name) {
    tried.emplace_back(name);
    return name == "shown";
  };
  const auto found = next_matches(host, collector, matches);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].name, "shown");
  EXPECT_THAT(tried, ElementsAre("other", "shown"));
}

bool any(std::string_view /*name*/) { return true; }

TEST_F(ArrayList, APageEndsWhereItIsFullAndTheNextGoesOnThere) {
  for (const char* name : {"a", "b", "c", "d", "e"}) create(name);
  EXPECT_THAT(pages_of(2, any),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d"), ElementsAre("e")));
  EXPECT_THAT(pages_of(5, any), SizeIs(1)) << "none is asked for that would be empty";
  const auto matches = [](std::string_view name) { return name != "b"; };
  EXPECT_THAT(pages_of(2, matches), ElementsAre(ElementsAre("a", "c"), ElementsAre("d", "e")));
}

TEST_F(ArrayList, PagesCountWithoutANameToo) {
  server::Session& holder = host.world.connect(1002);
  for (const char* name : {"a", "b", "c"}) {
    create(name);
    const wire::ArrayId id = host.world.open(holder, name);
    host.world.subscribe(holder, id).holds()[0].store(1);
    ASSERT_TRUE(host.world.broker.withdraw(owner.peer, name).ok());
  }
  create("d");
  EXPECT_THAT(pages_of(1, any),
              ElementsAre(ElementsAre("d"), ElementsAre("a"), ElementsAre("b"), ElementsAre("c")));
  EXPECT_THAT(pages_of(2, any), ElementsAre(ElementsAre("d", "a"), ElementsAre("b", "c")));
}

TEST_F(ArrayList, APageOfManyArraysIsVisitedInSteps) {
  for (std::size_t i = 0; i < 200; ++i) create(fmt::format("u/{:05}", i));
  host.turns = 0;
  EXPECT_THAT(pages_of(1000, any), ElementsAre(SizeIs(200)));
  EXPECT_EQ(host.turns, 3) << "the names, and 128 arrays at a time";
}

TEST_F(ArrayList, WhatGoesBetweenItsNameAndItsTurnIsLeftOut) {
  create("a");
  create("b");
  absl::Status withdrawn = absl::UnknownError("not yet");
  const auto matches = [&](std::string_view name) {
    if (name == "b") withdrawn = host.world.broker.withdraw(owner.peer, "a");
    return true;
  };
  EXPECT_THAT(pages_of(2, matches), ElementsAre(ElementsAre("b")));
  EXPECT_TRUE(withdrawn.ok()) << withdrawn;
}

}  // namespace
}  // namespace memlease::testing
