#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/connection_charges.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::peer_of;
using wire::code_of;
using wire::ErrorCode;

TEST(ConnectionCharges, AreForThoseThatNoSessionHasRoomFor) {
  Quota quota({});
  ConnectionCharges connections(quota);
  const auto used = [&] { return quota.used_by(1).descriptors; };
  std::vector<Charge> session;
  const auto open_session = [&] {
    session.push_back(*quota.charge(1, Resource::kSessions, 1));
    session.push_back(*quota.charge(1, Resource::kDescriptors, 7));
  };
  open_session();
  EXPECT_TRUE(connections.connected(1).ok());
  EXPECT_EQ(used(), 7U);
  EXPECT_TRUE(connections.connected(1).ok());
  EXPECT_EQ(used(), 7U + 3U);
  session.clear();
  connections.sessions_changed(1);
  EXPECT_EQ(used(), 2 * 3U) << "who keeps a session's connection pays for it";
  open_session();
  connections.sessions_changed(1);
  EXPECT_EQ(used(), 7U + 3U);
  connections.disconnected(1);
  EXPECT_EQ(used(), 7U);
  connections.disconnected(1);
  EXPECT_EQ(used(), 7U);
}

TEST(ConnectionCharges, AreRefusedWithNothingChanged) {
  Quota quota({0, 0, 0, 7});
  ConnectionCharges connections(quota);
  EXPECT_TRUE(connections.connected(1).ok());
  EXPECT_TRUE(connections.connected(1).ok());
  EXPECT_EQ(code_of(connections.connected(1)), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(quota.used_by(1).descriptors, 6U);
  EXPECT_TRUE(connections.connected(2).ok());
  connections.disconnected(1);
  EXPECT_TRUE(connections.connected(1).ok());
  for (int i = 0; i < 2; ++i) connections.disconnected(1);
  EXPECT_EQ(quota.used_by(1).descriptors, 0U);
}

TEST(ConnectionCharges, AreNotRefusedToWhoNeedsAFirstOneToRepairThat) {
  Quota quota({0, 0, 0, 7});
  ConnectionCharges connections(quota);
  auto much = quota.charge(1, Resource::kDescriptors, 7);
  ASSERT_TRUE(much.ok());
  EXPECT_TRUE(connections.connected(1).ok());
  EXPECT_EQ(quota.used_by(1).descriptors, 7U + 3U);
  EXPECT_EQ(code_of(connections.connected(1)), ErrorCode::kQuotaExceeded);
  connections.disconnected(1);
  EXPECT_EQ(quota.used_by(1).descriptors, 7U);
}

TEST(BrokerQuota, CountsConnectionsBesideSessions) {
  BrokerWorld world;
  const auto used = [&] { return world.broker.quota().used_by(1000).descriptors; };
  EXPECT_TRUE(world.broker.connected(1000).ok());
  EXPECT_EQ(used(), 3U);
  Session& session = world.connect(1000);
  EXPECT_EQ(used(), 7U);
  world.broker.exited(session.id);
  EXPECT_EQ(used(), 3U);
  world.broker.disconnected(1000);
  EXPECT_EQ(used(), 0U);
}

TEST(ConnectionCharges, CountTheConnectionsOfAllUsers) {
  Quota quota({.connections = 2});
  quota.set_supply({.connections = 8, .own_uid = 5});
  ConnectionCharges connections(quota);
  for (const uid_t uid : {0, 1, 5}) {
    EXPECT_TRUE(connections.connected(uid).ok());
    EXPECT_TRUE(connections.connected(uid).ok());
    EXPECT_EQ(code_of(connections.connected(uid)), ErrorCode::kQuotaExceeded);
    EXPECT_EQ(quota.used_by(uid).connections, 2U);
  }
  EXPECT_EQ(quota.used_by(0).descriptors, 0U) << "root has a reserve of those";
  EXPECT_TRUE(connections.connected(2).ok());
  EXPECT_FALSE(connections.connected(2).ok()) << "a third of the five that are left";
}

TEST(ConnectionCharges, AreThePayers) {
  Payers payers;
  payers.set({{1000, 100'000, 65'536}});
  Quota quota({.connections = 2}, "quota_", "host", [&](uid_t uid) { return payers.of(uid); });
  ConnectionCharges connections(quota);
  EXPECT_TRUE(connections.connected(100'001).ok());
  EXPECT_TRUE(connections.connected(100'002).ok());
  const auto refused = connections.connected(1000);
  EXPECT_THAT(wire::message_of(refused), ::testing::HasSubstr("uid 1000 uses 2 of its 2"));
  const auto session = quota.charge(100'003, Resource::kSessions, 1);
  connections.sessions_changed(100'003);
  EXPECT_EQ(quota.used_by(1000).descriptors, 3U);
  connections.disconnected(100'001);
  connections.disconnected(100'002);
  EXPECT_EQ(quota.used_by(1000).connections, 0U);
  EXPECT_EQ(quota.used_by(1000).descriptors, 0U);
}

}  // namespace
}  // namespace memlease::server
