#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/name_rules.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using ::testing::HasSubstr;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

NameRule rule(const std::string& pattern, std::uint32_t id, bool for_group = false) {
  return {*NamePattern::parse(pattern), pattern, for_group, id, std::to_string(id)};
}

TEST(NameRules, KeepNamesForAUserOrAGroup) {
  const NameRules rules({rule("sim/*", 1000), rule("hpc/*", 70, true)});
  EXPECT_TRUE(rules.may_create(peer_of(1000), "sim/u").ok());
  EXPECT_TRUE(rules.may_create(peer_of(1001), "other").ok()) << "not reserved";
  EXPECT_TRUE(rules.may_create(peer_of(0), "sim/u").ok()) << "root";
  EXPECT_TRUE(rules.may_create(peer_of(1001, {70}), "hpc/u").ok());
  EXPECT_TRUE(rules.may_create(peer_of(70), "hpc/u").ok()) << "its first group";

  const auto refused = rules.may_create(peer_of(1001), "sim/u");
  EXPECT_EQ(code_of(refused), ErrorCode::kDenied);
  EXPECT_THAT(wire::message_of(refused),
              HasSubstr("uid 1001 may not create 'sim/u': names like 'sim/*' are reserved for user "
                        "1000"));
  EXPECT_THAT(wire::message_of(rules.may_create(peer_of(1000), "hpc/u")),
              HasSubstr("reserved for group 70"));
}

TEST(NameRules, TheMostPreciseOneCounts) {
  const NameRules rules({rule("*", 1), rule("sim/?", 2), rule("sim/*", 3), rule("sim/a*", 4)});
  const auto creator = [&](const char* name) {
    for (uid_t uid = 1; uid < 5; ++uid) {
      if (rules.may_create(peer_of(uid), name).ok()) return uid;
    }
    return uid_t{0};
  };
  EXPECT_EQ(creator("b"), 1U);
  EXPECT_EQ(creator("sim/b"), 2U) << "of equal ones the first";
  EXPECT_EQ(creator("sim/bc"), 3U);
  EXPECT_EQ(creator("sim/a"), 4U);
}

TEST(NameRules, HoldForWhatIsCreatedFromNowOn) {
  BrokerWorld world;
  Session& other = world.connect(1001);
  world.create(other, spec_of("sim/u", 0644));
  Broker::Limits limits;
  limits.names = NameRules({rule("sim/*", 1000)});
  world.broker.set_limits(limits, {});
  EXPECT_EQ(code_of(world.try_create(other, spec_of("sim/v")).status()), ErrorCode::kDenied);
  EXPECT_TRUE(world.try_create(world.connect(1000), spec_of("sim/v")).ok());
  EXPECT_TRUE(world.try_create(other, spec_of("sim/u", 0644), true).ok()) << "it is there already";
  EXPECT_TRUE(world.broker.open(world.connect(1002), "sim/u").ok()) << "reading is another thing";
}

}  // namespace
}  // namespace memlease::server
