#include <cstdint>

#include "gtest/gtest.h"
#include "server/core/payers.h"

namespace memlease::server {
namespace {

constexpr uid_t kDaemon = 5000;

TEST(Payers, AreAllUidsWhereNobodyHasOthers) {
  Payers payers(kDaemon);
  for (const uid_t uid : {0U, 1U, 1000U, 100'000U, UINT32_MAX}) EXPECT_EQ(payers.of(uid), uid);
}

TEST(Payers, OfASubordinateUidIsItsUser) {
  Payers payers(kDaemon);
  payers.set({{1000, 100'000, 65'536}, {1001, 165'536, 10}});
  EXPECT_EQ(payers.of(99'999), 99'999U);
  EXPECT_EQ(payers.of(100'000), 1000U);
  EXPECT_EQ(payers.of(165'535), 1000U);
  EXPECT_EQ(payers.of(165'536), 1001U);
  EXPECT_EQ(payers.of(165'545), 1001U);
  EXPECT_EQ(payers.of(165'546), 165'546U);
  EXPECT_EQ(payers.of(1000), 1000U);
}

// They manage containers of many users.
TEST(Payers, RootServicesAndTheDaemonPayForNobodyElse) {
  Payers payers(kDaemon);
  payers.set({{0, 1'000'000, 1'000'000}, {999, 3'000'000, 65'536}});
  EXPECT_EQ(payers.of(1'000'001), 1'000'001U);
  EXPECT_EQ(payers.of(3'000'009), 3'000'009U);
  Payers of_a_user(1000);
  of_a_user.set({{1000, 100'000, 65'536}});
  EXPECT_EQ(of_a_user.of(100'001), 100'001U)
      << "who runs the daemon has a reserve that is his alone";
}

TEST(Payers, NobodyPaysForRootAndTheDaemon) {
  Payers payers(kDaemon);
  payers.set({{1000, 0, UINT32_MAX}});
  EXPECT_EQ(payers.of(0), 0U);
  EXPECT_EQ(payers.of(kDaemon), kDaemon);
  EXPECT_EQ(payers.of(1000), 1000U);
  EXPECT_EQ(payers.of(UINT32_MAX - 1), 1000U);
  EXPECT_EQ(payers.of(UINT32_MAX), UINT32_MAX);
}

TEST(Payers, WhoPaysForSomebodyPaysForHimself) {
  Payers payers(kDaemon);
  payers.set({{1000, 100'000, 65'536}, {100'001, 200'000, 65'536}});
  EXPECT_EQ(payers.of(200'005), 100'001U);
  EXPECT_EQ(payers.of(100'001), 100'001U);
  EXPECT_EQ(payers.of(100'002), 1000U);
}

// What a uid has been charged is given back to the same account.
TEST(Payers, StayForWhomeverTheyWereAskedFor) {
  Payers payers(kDaemon);
  EXPECT_EQ(payers.of(100'000), 100'000U);
  payers.set({{1000, 100'000, 65'536}});
  EXPECT_EQ(payers.of(100'000), 100'000U);
  EXPECT_EQ(payers.of(100'001), 1000U);
  payers.set({});
  EXPECT_EQ(payers.of(100'001), 1000U);
  EXPECT_EQ(payers.of(100'002), 100'002U);
}

}  // namespace
}  // namespace memlease::server
