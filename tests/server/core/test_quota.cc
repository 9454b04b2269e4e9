#include <optional>
#include <utility>
#include <vector>

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
  const auto first = quota.charge(1, {100, 1, 0});
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(quota.charge(2, {100, 1, 0}).ok());
  EXPECT_EQ(code_of(quota.charge(1, {1, 0, 0}).status()), ErrorCode::kQuotaExceeded);
}

TEST(Quota, RefusesEachKindByItsOwnLimitAndSaysWhich) {
  Quota quota({10, 2, 3, 4});
  for (const auto& [amount, word] :
       std::vector<std::pair<Usage, std::string>>{{{11, 0, 0}, "bytes"},
                                                  {{0, 3, 0}, "arrays"},
                                                  {{0, 0, 4}, "sessions"},
                                                  {{0, 0, 0, 5}, "descriptors"}}) {
    const auto charge = quota.charge(5, amount);
    EXPECT_EQ(code_of(charge.status()), ErrorCode::kQuotaExceeded);
    EXPECT_THAT(wire::message_of(charge.status()), HasSubstr(word));
    EXPECT_THAT(wire::hint_of(charge.status()), HasSubstr("quota_" + word));
  }
}

TEST(Quota, NewLimitsHoldForWhatIsAskedForNext) {
  Quota quota({10, 0, 0});
  const auto kept = quota.charge(1, {10, 0, 0});
  ASSERT_TRUE(kept.ok());
  quota.set_limits({5, 0, 0});
  EXPECT_EQ(quota.used_by(1).bytes, 10U) << "nobody loses what they have";
  EXPECT_EQ(code_of(quota.charge(1, {1, 0, 0}).status()), ErrorCode::kQuotaExceeded);
  quota.set_limits({11, 0, 0});
  EXPECT_TRUE(quota.charge(1, {1, 0, 0}).ok());
}

TEST(Quota, ARefusalOfBytesSaysWhere) {
  Quota quota({10, 1, 0}, "gpu_quota_", "GPU-1");
  EXPECT_THAT(wire::message_of(quota.charge(5, {11, 0, 0}).status()), HasSubstr("bytes on GPU-1,"));
  EXPECT_THAT(wire::message_of(quota.charge(5, {0, 2, 0}).status()), HasSubstr("1 arrays, "));
}

TEST(Quota, OfASupplyAUserHasHalfAndAnEighthIsKeptForRoot) {
  constexpr uid_t kOwnUid = 50;
  Quota quota({});
  quota.set_supply({80, kOwnUid});
  std::vector<Quota::Charge> charges;
  const auto take = [&](uid_t uid, std::uint64_t descriptors) {
    auto charge = quota.charge(uid, {0, 0, 0, descriptors});
    if (charge.ok()) charges.push_back(*std::move(charge));
    return charge.status();
  };
  EXPECT_TRUE(take(1, 40).ok());
  const auto refused = take(1, 1);
  EXPECT_EQ(code_of(refused), ErrorCode::kQuotaExceeded);
  EXPECT_THAT(wire::message_of(refused), HasSubstr("uid 1 would have 41 and all users together 41 "
                                                   "of the 80 descriptors"));
  EXPECT_TRUE(take(2, 30).ok());
  EXPECT_EQ(code_of(take(3, 1)), ErrorCode::kQuotaExceeded) << "the rest is root's";
  EXPECT_TRUE(take(0, 5).ok());
  EXPECT_TRUE(take(kOwnUid, 5).ok());
  charges.erase(charges.begin());
  EXPECT_TRUE(take(3, 40).ok()) << "what root has does not count";
  EXPECT_TRUE(quota.charge(3, {0, 1, 0}).ok()) << "nor do arrays";
}

TEST(Quota, RefusalChangesNothing) {
  Quota quota({10, 1, 1});
  EXPECT_FALSE(quota.charge(5, {10, 1, 2}).ok());
  EXPECT_TRUE(quota.charge(5, {10, 1, 1}).ok());
}

TEST(Quota, ZeroMeansNoLimit) {
  Quota quota({0, 0, 0});
  EXPECT_TRUE(quota.charge(5, {UINT64_MAX / 2, 1'000'000, 1'000'000}).ok());
}

TEST(Quota, AnAmountThatWouldOverflowIsRefused) {
  Quota quota({100, 0, 0});
  const auto held = quota.charge(5, {50, 0, 0});
  ASSERT_TRUE(held.ok());
  EXPECT_FALSE(quota.charge(5, {UINT64_MAX - 20, 0, 0}).ok());
}

TEST(Quota, AChargeTakesItselfBackExactlyOnceHoweverItMoves) {
  Quota quota({0, 0, 0});
  {
    auto first = quota.charge(5, {10, 1, 0});
    auto second = quota.charge(5, {30, 1, 0});
    ASSERT_TRUE(first.ok() && second.ok());
    Quota::Charge moved = std::move(*first);
    moved = std::move(*second);  // swapped: both still stand
    EXPECT_EQ(quota.used_by(5).bytes, 40U);
    *second = Quota::Charge();
    EXPECT_EQ(quota.used_by(5).bytes, 30U);
  }
  EXPECT_EQ(quota.used_by(5).bytes, 0U);
  EXPECT_EQ(quota.used_by(5).arrays, 0U);
}

RC_GTEST_PROP(Quota, UsageIsTheSumOfTheLivingChargesAndNeverAboveTheLimit, ()) {
  Quota quota({1000, 0, 0});
  std::vector<std::pair<std::uint64_t, Quota::Charge>> living;
  const auto amounts =
      *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 400));
  for (const std::uint64_t bytes : amounts) {
    std::uint64_t sum = 0;
    for (const auto& [living_bytes, charge] : living) sum += living_bytes;
    RC_ASSERT(quota.used_by(7).bytes == sum);
    auto charge = quota.charge(7, {bytes, 0, 0});
    RC_ASSERT(charge.ok() == (sum + bytes <= 1000));
    if (charge.ok()) living.emplace_back(bytes, std::move(*charge));
    if (bytes % 3 == 0 && !living.empty()) living.erase(living.begin());
  }
  living.clear();
  RC_ASSERT(quota.used_by(7).bytes == 0U);
}

}  // namespace
}  // namespace memlease::server
