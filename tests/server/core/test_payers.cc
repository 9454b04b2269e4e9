#include <cstdint>

#include "gtest/gtest.h"
#include "server/core/payers.h"

namespace memlease::server {
namespace {

constexpr uid_t kDaemon = 990;

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

TEST(Payers, ContainersOfRootAndOfServicesPayByTheContainer) {
  Payers payers(kDaemon);
  payers.set({{0, 1'000'000, 1'000'000}, {kDaemon, 3'000'000, 65'536}});
  EXPECT_EQ(payers.of(1'000'001), 1'000'000U);
  EXPECT_EQ(payers.of(1'065'535), 1'000'000U);
  EXPECT_EQ(payers.of(1'065'536), 1'065'536U);
  EXPECT_EQ(payers.of(3'000'009), 3'000'000U) << "nobody gets the daemon's own reserve so";
}

TEST(Payers, RootAndTheDaemonPayForThemselvesWhateverTheFileSays) {
  Payers payers(kDaemon);
  payers.set({{1000, 0, UINT32_MAX}});
  EXPECT_EQ(payers.of(0), 0U);
  EXPECT_EQ(payers.of(kDaemon), kDaemon);
  EXPECT_EQ(payers.of(UINT32_MAX - 1), 1000U);
  EXPECT_EQ(payers.of(UINT32_MAX), UINT32_MAX);
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
