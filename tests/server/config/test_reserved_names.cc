// The table [names] of the file of settings. What is wrong in one: test_configure.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/config/configure.h"
#include "tests/server/config/config_world.h"

namespace memlease::server {
namespace {

using ReservedNames = ConfigTest;

TEST_F(ReservedNames, AreForUsersAndGroups) {
  EXPECT_TRUE(config().names.empty());
  const std::string path = file(
      "idle_exit_s = 1\n\n [names]  # whose\n\"sim/*\" = {owner = \"root\"}\n"
      "  \"a/?\"={ group=12 } # \u00e4\n");
  const auto check = [&] {
    const Config config = this->config();
    ASSERT_EQ(config.names.size(), 2U);
    EXPECT_EQ(config.names[0].pattern_text, "sim/*");
    EXPECT_FALSE(config.names[0].for_group);
    EXPECT_EQ(config.names[0].id, 0U);
    EXPECT_EQ(config.names[1].pattern_text, "a/?");
    EXPECT_TRUE(config.names[1].for_group);
    EXPECT_EQ(config.names[1].id, 12U);
  };
  check();
  const std::string printed = run({"--print-config"}).output;
  EXPECT_THAT(printed, ::testing::ContainsRegex("sim/.. = .owner = .root.. +# " + path + ":4\n"));
  file(printed);
  check();
}

TEST_F(ReservedNames, AreNamesThatThereCanBe) {
  for (const std::string pattern : {"*", "?", "s*/u?", "*/x*"}) {
    file("[names]\n\"" + pattern + "\" = {owner = \"root\"}\n");
    EXPECT_EQ(config().names.size(), 1U) << pattern;
  }
}

TEST_F(ReservedNames, AReloadTakesThem) {
  const Config before = config();
  const std::string path = file("[names]\n\"sim/*\" = {owner = \"root\"}\n");
  auto reloaded = reread(before);
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  ASSERT_EQ(reloaded->changes.size(), 1U);
  EXPECT_EQ(reloaded->changes[0].name, "names");
  EXPECT_EQ(reloaded->changes[0].before, "{}");
  EXPECT_EQ(reloaded->changes[0].after, "{\"sim/*\" = {owner = \"root\"}}");
  EXPECT_EQ(reloaded->changes[0].origin, path + ":2");
  EXPECT_TRUE(reloaded->changes[0].applied);
  EXPECT_EQ(reloaded->config.names.size(), 1U);
  EXPECT_TRUE(reread(reloaded->config)->changes.empty());
  file("");
  reloaded = reread(reloaded->config);
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  EXPECT_EQ(reloaded->changes.size(), 1U);
  EXPECT_TRUE(reloaded->config.names.empty());
}

}  // namespace
}  // namespace memlease::server
