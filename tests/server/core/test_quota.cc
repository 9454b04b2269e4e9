#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "server/core/quota.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using wire::code_of;
using wire::ErrorCode;

TEST(Quota, ChargesEachUidOnItsOwn) {
  Quota quota({100, 0, 0});
  const auto first = quota.charge(1, Resource::kBytes, 100);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(quota.charge(2, Resource::kBytes, 100).ok());
  EXPECT_EQ(code_of(quota.charge(1, Resource::kBytes, 1).status()), ErrorCode::kQuotaExceeded);
}

TEST(Quota, RefusesEachKindByItsOwnLimitAndSaysWhich) {
  Usage limits;
  for (std::size_t i = 0; i < kResources; ++i) {
    limits.*facts_of(static_cast<Resource>(i)).amount = 10 + i;
  }
  Quota quota(limits);
  for (std::size_t i = 0; i < kResources; ++i) {
    const auto kind = static_cast<Resource>(i);
    const auto all = quota.charge(5, kind, 10 + i);
    EXPECT_TRUE(all.ok()) << all.status();
    const auto more = quota.charge(5, kind, 1);
    EXPECT_EQ(code_of(more.status()), ErrorCode::kQuotaExceeded);
    EXPECT_EQ(quota.account(5).may_spend(kind, 1), more.status());
    EXPECT_THAT(
        wire::message_of(more.status()),
        HasSubstr(fmt::format("uid 5 uses {} of its {} {}", 10 + i, 10 + i, facts_of(kind).words)));
    EXPECT_THAT(wire::hint_of(more.status()),
                HasSubstr(fmt::format("or raise quota_{}.", facts_of(kind).setting)));
  }
  EXPECT_EQ(quota.used_by(5), Usage{}) << "each has been taken back";
}

TEST(Quota, NewLimitsHoldForWhatIsAskedForNext) {
  Quota quota({10, 0, 0});
  const auto kept = quota.charge(1, Resource::kBytes, 10);
  ASSERT_TRUE(kept.ok());
  quota.set_limits({5, 0, 0});
  EXPECT_EQ(quota.used_by(1).bytes, 10U) << "nobody loses what they have";
  EXPECT_EQ(code_of(quota.charge(1, Resource::kBytes, 1).status()), ErrorCode::kQuotaExceeded);
  quota.set_limits({11, 0, 0});
  EXPECT_TRUE(quota.charge(1, Resource::kBytes, 1).ok());
}

TEST(Quota, ARefusalOfBytesSaysWhere) {
  Quota quota({10, 1, 0}, "gpu_quota_", "GPU-1");
  EXPECT_THAT(wire::message_of(quota.charge(5, Resource::kBytes, 11).status()),
              HasSubstr("bytes on GPU-1,"));
  EXPECT_THAT(wire::message_of(quota.charge(5, Resource::kArrays, 2).status()),
              HasSubstr("1 arrays, "));
}

TEST(Quota, OfASupplyAUserHasAPartOfWhatOthersLeave) {
  constexpr uid_t kOwnUid = 50;
  Quota quota({});
  quota.set_supply({.descriptors = 80, .own_uid = kOwnUid});
  std::vector<Charge> charges;
  const auto take = [&](uid_t uid, std::uint64_t descriptors) {
    auto charge = quota.charge(uid, Resource::kDescriptors, descriptors);
    if (!charge.ok()) return charge.status();
    charges.push_back(*std::move(charge));
    return absl::OkStatus();
  };
  EXPECT_TRUE(take(1, 35).ok()) << "half of the 70 beside the reserve, where it is alone";
  const auto refused = take(1, 1);
  EXPECT_EQ(code_of(refused), ErrorCode::kQuotaExceeded);
  EXPECT_THAT(wire::message_of(refused), HasSubstr("uid 1 would have 36 of the 80 descriptors that "
                                                   "the daemon may open, and may have 35"));
  EXPECT_FALSE(take(2, 12).ok());
  EXPECT_TRUE(take(2, 11).ok()) << "a third of the 35 that the other one leaves";
  EXPECT_FALSE(take(3, 7).ok());
  EXPECT_TRUE(take(3, 6).ok()) << "a fourth of 24";
  EXPECT_FALSE(take(1, 1).ok()) << "who has more than its part gets nothing";
  EXPECT_TRUE(take(0, 5).ok());
  EXPECT_TRUE(take(kOwnUid, 5).ok());
  charges.erase(charges.begin());
  EXPECT_TRUE(take(3, 10).ok()) << "what root has does not count";
  EXPECT_TRUE(quota.charge(3, Resource::kArrays, 1).ok()) << "nor do arrays";
}

TEST(Quota, AnEighthOfASupplyIsKeptForRootHoweverManyShareIt) {
  Quota quota({});
  quota.set_supply({.descriptors = 800, .own_uid = 5000});
  std::vector<Charge> charges;
  std::uint64_t all = 0;
  for (uid_t uid = 1; uid <= 100; ++uid) {
    for (;; ++all) {
      auto charge = quota.charge(uid, Resource::kDescriptors, 1);
      if (!charge.ok()) break;
      charges.push_back(*std::move(charge));
    }
  }
  EXPECT_LE(all, 700U);
  EXPECT_EQ(quota.used_by(1).descriptors, 350U);
  EXPECT_GT(quota.used_by(10).descriptors, 0U) << "the greedy first ones leave something";
  EXPECT_TRUE(quota.charge(0, Resource::kDescriptors, 100).ok());
}

TEST(Quota, RefusalChangesNothing) {
  Quota quota({10, 1, 1});
  EXPECT_FALSE(quota.charge(5, Resource::kBytes, 11).ok());
  EXPECT_EQ(quota.used_by(5), Usage{});
  EXPECT_TRUE(quota.charge(5, Resource::kBytes, 10).ok());
}

TEST(Quota, ZeroMeansNoLimit) {
  Quota quota({0, 0, 0});
  EXPECT_TRUE(quota.charge(5, Resource::kBytes, kMostCharged).ok());
  EXPECT_FALSE(quota.charge(5, Resource::kBytes, kMostCharged + 1).ok());
}

TEST(Quota, AnAmountThatWouldOverflowIsRefused) {
  Quota quota({100, 0, 0});
  const auto held = quota.charge(5, Resource::kBytes, 50);
  ASSERT_TRUE(held.ok());
  EXPECT_FALSE(quota.charge(5, Resource::kBytes, UINT64_MAX - 20).ok());
}

TEST(Quota, AChargeTakesItselfBackExactlyOnceHoweverItMoves) {
  Quota quota({0, 0, 0});
  {
    auto first = quota.charge(5, Resource::kBytes, 10);
    auto second = quota.charge(5, Resource::kBytes, 30);
    ASSERT_TRUE(first.ok() && second.ok());
    Charge moved = std::move(*first);
    moved = std::move(*second);  // swapped: both still stand
    EXPECT_EQ(quota.used_by(5).bytes, 40U);
    *second = Charge();
    EXPECT_EQ(quota.used_by(5).bytes, 30U);
  }
  EXPECT_EQ(quota.used_by(5).bytes, 0U);
}

TEST(Quota, AChargeGrowsWithinItsLimitAndBeyondItWhereItMust) {
  Quota quota({.requests = 3});
  {
    Charge charge = quota.account(5).empty_charge(Resource::kRequests);
    EXPECT_TRUE(charge.add(2));
    EXPECT_FALSE(charge.add(2));
    EXPECT_TRUE(charge.add(1));
    charge.add_anyway(4);
    EXPECT_EQ(quota.used_by(5).requests, 7U);
    EXPECT_FALSE(charge.add(1));
  }
  EXPECT_EQ(quota.used_by(5).requests, 0U);
}

// As gRPC's threads, the loop's and those that have the core do it.
TEST(Quota, ThreadsThatChargeAnAccountKeepWithinItsLimitAndLeaveNothing) {
  constexpr std::uint64_t kMost = 5;
  Quota quota({.waiting_calls = kMost});
  Account& account = quota.account(5);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        std::vector<Charge> charges;
        for (int n = 0; n < 3; ++n) {
          auto charge = account.charge(Resource::kWaitingCalls, 1);
          if (charge.ok()) charges.push_back(*std::move(charge));
          EXPECT_LE(account.used(Resource::kWaitingCalls), kMost);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.usage(), Usage{});
}

RC_GTEST_PROP(Quota, UsageIsTheSumOfTheLivingChargesAndNeverAboveTheLimit, ()) {
  Quota quota({1000, 0, 0});
  std::vector<std::pair<std::uint64_t, Charge>> living;
  const auto amounts =
      *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 400));
  for (const std::uint64_t bytes : amounts) {
    std::uint64_t sum = 0;
    for (const auto& [living_bytes, charge] : living) sum += living_bytes;
    RC_ASSERT(quota.used_by(7).bytes == sum);
    auto charge = quota.charge(7, Resource::kBytes, bytes);
    RC_ASSERT(charge.ok() == (sum + bytes <= 1000));
    if (charge.ok()) living.emplace_back(bytes, std::move(*charge));
    if (bytes % 3 == 0 && !living.empty()) living.erase(living.begin());
  }
  living.clear();
  RC_ASSERT(quota.used_by(7).bytes == 0U);
}

TEST(Quota, HeapIsCountedBeyondWhatAnybodyMayHave) {
  Quota quota({});
  const auto much = quota.charge(1000, Resource::kArrays, 10'000);
  const auto little = quota.charge(1001, Resource::kArrays, 100);
  const auto opens = quota.charge(1000, Resource::kOpenArrays, 1000);
  ASSERT_TRUE(much.ok() && little.ok() && opens.ok());
  EXPECT_EQ(quota.heap_bytes(), 20'048'000 - Account::kHeapOfAnybody);
}

}  // namespace
}  // namespace memlease::server
