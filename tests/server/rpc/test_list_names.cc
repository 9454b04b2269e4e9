// Lists leave the core to others while they try a pattern, and after each step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "server/core/name_collector.h"
#include "server/rpc/list_names.h"
#include "tests/support/fake_service_host.h"

namespace memlease::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr std::size_t kStep = server::NameCollector::kArraysPerStep;

class ListNames : public ::testing::Test {
 protected:
  void create(const std::string& name, std::uint32_t mode = 0604) {
    host.world.create(owner, spec_of(name, mode, 1));
  }

  FakeServiceHost host;
  server::Session& owner = host.world.connect(1000);
};

TEST_F(ListNames, NobodyWaitsForTheCoreWhileAPatternIsTried) {
  for (std::size_t i = 0; i < kStep + 1; ++i) create(fmt::format("u/{:05}", i));
  std::size_t tried = 0;
  const auto matches = [&](std::string_view /*name*/) {
    EXPECT_FALSE(host.held());
    return ++tried != 0;
  };
  EXPECT_THAT(list_names(host, peer_of(1001), false, matches), SizeIs(kStep + 1));
  EXPECT_EQ(tried, kStep + 1);
  EXPECT_EQ(host.turns, 2) << "and in between others have their turn";
  host.with_broker([&](server::Broker& /*broker*/) { EXPECT_TRUE(host.held()) << "the control"; });
}

TEST_F(ListNames, APatternIsTriedOnNamesThatTheViewerMayReadAlone) {
  create("shown");
  create("other");
  create("secret", 0600);
  std::vector<std::string> tried;
  const auto matches = [&](std::string_view name) {
    tried.emplace_back(name);
    return name == "shown";
  };
  EXPECT_THAT(list_names(host, peer_of(1001), false, matches), ElementsAre("shown"));
  EXPECT_THAT(tried, ElementsAre("other", "shown"));
}

}  // namespace
}  // namespace memlease::testing
