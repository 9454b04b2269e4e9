#include <algorithm>

#include "gtest/gtest.h"
#include "server/rpc/account.h"

namespace memlease::server {
namespace {

// The two accounts that each Debian has.
TEST(AccountOf, NamesTheGroupsOfTheAccountDatabase) {
  EXPECT_EQ(account_of(0).gid, 0U);
  const PeerIdentity nobody = account_of(65534);
  EXPECT_EQ(nobody.uid, 65534U);
  EXPECT_EQ(nobody.gid, 65534U);
  EXPECT_EQ(std::ranges::count(nobody.groups, gid_t{65534}), 1);
}

TEST(AccountOf, AUidWithoutAnAccountIsInNoGroup) {
  const PeerIdentity stranger = account_of(4'000'123);
  EXPECT_EQ(stranger.uid, 4'000'123U);
  EXPECT_EQ(stranger.gid, static_cast<gid_t>(-1));
  EXPECT_TRUE(stranger.groups.empty());
}

}  // namespace
}  // namespace memlease::server
