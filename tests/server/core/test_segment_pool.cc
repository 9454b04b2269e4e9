#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "server/core/segment_pool.h"
#include "tests/support/fake_memory.h"
#include "tests/support/let_go.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::FakeMemory;
using wire::code_of;
using wire::ErrorCode;
using wire::FileRange;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr AccessDomain kMine{1000, 100, 0600};
constexpr AccessDomain kShared{1000, 100, 0660};
constexpr AccessDomain kOther{1001, 100, 0600};

struct Pool {
  explicit Pool(const SegmentPool::Limits& limits) : segments(files, memory, quota, limits) {}
  // As the core and the daemon do it together.
  absl::StatusOr<FileRange> allocate(const AccessDomain& domain, std::uint64_t bytes) {
    if (const auto at = segments.place(domain, bytes)) return *at;
    const auto growth = segments.reserve(domain, bytes, 1);
    if (!growth.ok()) return growth.status();
    auto added =
        segments.add(*growth, memory.create_segment(growth->size_bytes, wire::ReserveKept::kAll));
    if (!added.ok()) return added;
    return *segments.place(domain, bytes);
  }
  FileRange must(const AccessDomain& domain, std::uint64_t bytes) {
    auto at = allocate(domain, bytes);
    EXPECT_TRUE(at.ok()) << at.status();
    return at.ok() ? *at : FileRange{};
  }
  FakeMemory memory;
  Payers payers;
  Quota quota{{}, "quota_", "host", [this](uid_t uid) { return payers.of(uid); }};
  bool keeps_garbage = false;
  std::vector<std::shared_ptr<Garbage>> heap;
  FileTable files{quota, [this](uid_t, std::shared_ptr<Garbage> garbage) {
                    heap.push_back(std::move(garbage));
                    if (!keeps_garbage) testing::let_go(heap);
                  }};
  SegmentPool segments;
};

// One warm segment is enough: that it has gone is worth waiting for.
TEST(SegmentPool, WhatIsOnItsWayStaysChargedAndNoMoreIsGivenBackForIt) {
  Usage limits;
  limits.segment_bytes = 16 * kMiB;
  Pool pool({16 * kMiB, 64 * kMiB});
  pool.quota.set_limits(limits);
  std::vector<FileRange> places;
  for (int i = 0; i < 4; ++i) places.push_back(pool.must(kMine, 4 * kMiB));
  for (const FileRange& at : places) pool.segments.free(kMine, at, 4 * kMiB);
  EXPECT_EQ(pool.segments.warm_bytes(), 16 * kMiB);
  pool.keeps_garbage = true;
  EXPECT_FALSE(pool.segments.reserve(kShared, 3 * kMiB, 1).ok());
  EXPECT_EQ(pool.segments.warm_bytes(), 12 * kMiB);
  EXPECT_EQ(pool.segments.kept_bytes(), 4 * kMiB);
  EXPECT_EQ(pool.segments.memory_bytes(), 16 * kMiB);
  EXPECT_EQ(pool.files.going_of(1000), 1U);
  EXPECT_FALSE(pool.segments.reserve(kShared, 3 * kMiB, 1).ok());
  EXPECT_EQ(pool.segments.warm_bytes(), 12 * kMiB);
  EXPECT_EQ(code_of(pool.segments.reserve(kOther, 3 * kMiB, 1).status()), ErrorCode::kOutOfMemory);
  EXPECT_EQ(pool.segments.warm_bytes(), 12 * kMiB);
  testing::let_go(pool.heap);
  EXPECT_EQ(pool.segments.memory_bytes(), 12 * kMiB);
  EXPECT_TRUE(pool.segments.reserve(kShared, 3 * kMiB, 1).ok());
}

TEST(SegmentPool, SmallArraysShareASegment) {
  Pool pool({0, 0});
  const FileRange a = pool.must(kMine, 100);
  const FileRange b = pool.must(kMine, 100);
  EXPECT_EQ(a.file, b.file);
  EXPECT_NE(a.offset, b.offset);
  EXPECT_EQ(pool.memory.live().bytes, FakeMemory::kSizes.first);
}

TEST(SegmentPool, AZeroSizedArrayGetsAPlace) {
  Pool pool({0, 0});
  const FileRange a = pool.must(kMine, 0);
  const FileRange b = pool.must(kMine, 0);
  EXPECT_NE(a, b);
  pool.segments.free(kMine, a, 0);
  pool.segments.free(kMine, b, 0);
  EXPECT_EQ(pool.memory.live().files, 0U);
}

TEST(SegmentPool, WhereThereIsNoRoomToGrowWhatIsNeededIsEnough) {
  Pool pool({});
  auto growth = pool.segments.reserve(kMine, 5000, 1);
  ASSERT_TRUE(growth.ok());
  EXPECT_EQ(growth->size_bytes, FakeMemory::kSizes.first);
  EXPECT_EQ(growth->needed_bytes, 8192U);
  pool.memory.fail_only(1);
  auto memory = SegmentPool::make(pool.memory, *growth);
  ASSERT_TRUE(pool.segments.add(*growth, std::move(memory)).ok());
  EXPECT_EQ(pool.segments.memory_bytes(), 8192U);
  EXPECT_EQ(pool.quota.used_by(kMine.uid).segment_bytes, 8192U);
  const auto at = pool.segments.place(kMine, 5000);
  ASSERT_TRUE(at);
  EXPECT_FALSE(pool.segments.place(kMine, 5000));
  pool.segments.free(kMine, *at, 5000);
  EXPECT_EQ(pool.segments.memory_bytes(), 0U);
  EXPECT_EQ(pool.quota.used_by(kMine.uid).segment_bytes, 0U);

  auto refused = pool.segments.reserve(kMine, 5000, 1);
  ASSERT_TRUE(refused.ok());
  pool.memory.fail_next(2);
  memory = SegmentPool::make(pool.memory, *refused);
  EXPECT_EQ(code_of(pool.segments.add(*refused, std::move(memory))), ErrorCode::kOutOfMemory);
  EXPECT_EQ(pool.segments.memory_bytes(), 0U);
  EXPECT_EQ(pool.quota.used_by(kMine.uid).segment_bytes, 0U);
}

TEST(SegmentPool, WhoHasLittleIsGivenOfTheReserve) {
  Pool pool({});
  const auto may_have_of_the_reserve = [&](const AccessDomain& domain, std::uint64_t size_bytes) {
    const auto growth = pool.segments.reserve(domain, size_bytes, 1);
    EXPECT_TRUE(growth.ok());
    EXPECT_EQ(code_of(pool.segments.add(*growth, absl::CancelledError())), ErrorCode::kInternal);
    return growth->kept == wire::ReserveKept::kThreeEighths;
  };
  EXPECT_TRUE(may_have_of_the_reserve(kMine, 16 * kMiB));
  EXPECT_FALSE(may_have_of_the_reserve(kMine, 17 * kMiB));
  pool.must(kMine, 8 * kMiB);
  EXPECT_TRUE(may_have_of_the_reserve(kShared, 5000)) << "whatever would follow that";
  EXPECT_FALSE(may_have_of_the_reserve(kShared, 9 * kMiB)) << "together";
  EXPECT_TRUE(may_have_of_the_reserve(kOther, 9 * kMiB));
}

TEST(SegmentPool, MemoryThatNobodyUsesGoesBack) {
  Pool pool({0, 0});
  for (int i = 0; i < 3; ++i) {
    const auto growth = pool.segments.reserve(kMine, 100, 1);
    ASSERT_TRUE(growth.ok());
    ASSERT_TRUE(
        pool.segments
            .add(*growth, pool.memory.create_segment(growth->size_bytes, wire::ReserveKept::kAll))
            .ok());
  }
  const auto used = pool.segments.place(kMine, 100);
  ASSERT_TRUE(used);
  pool.segments.return_surplus();
  EXPECT_EQ(pool.segments.warm_bytes(), 0U);
  EXPECT_EQ(pool.memory.live().bytes, FakeMemory::kSizes.first);
  EXPECT_EQ(pool.segments.memory_bytes(), FakeMemory::kSizes.first);
  pool.segments.free(kMine, *used, 100);
  EXPECT_EQ(pool.memory.live().files, 0U);
}

TEST(SegmentPool, NeverMixesAccessDomainsNotEvenWhenWarm) {
  Pool pool({0, 64 * kMiB});
  const FileRange mine = pool.must(kMine, 100);
  pool.segments.free(kMine, mine, 100);
  ASSERT_GT(pool.segments.warm_bytes(), 0U);
  const FileRange other = pool.must(kOther, 100);
  const FileRange shared = pool.must(kShared, 100);
  EXPECT_NE(other.file, mine.file);
  EXPECT_NE(shared.file, mine.file);
  EXPECT_NE(shared.file, other.file);
  EXPECT_EQ(pool.files.find(other.file)->domain, kOther);
  EXPECT_EQ(pool.must(kMine, 100).file, mine.file) << "the warm segment serves its own class";
}

TEST(SegmentPool, ChecksTheLimitBeforeItAsksForMemory) {
  Pool pool({8 * kMiB, 0});
  pool.memory.never_fail();
  const auto refused = pool.allocate(kMine, 9 * kMiB);
  EXPECT_EQ(code_of(refused.status()), ErrorCode::kOutOfMemory);
  EXPECT_EQ(pool.memory.calls(), 0U);
  EXPECT_EQ(pool.segments.memory_bytes(), 0U);
}

TEST(SegmentPool, TakesWhatIsNeededWhereAWholeSegmentWouldNotFit) {
  Pool pool({5 * kMiB, 0});
  pool.must(kMine, 4 * kMiB);
  pool.must(kOther, kMiB);
  EXPECT_EQ(pool.segments.memory_bytes(), 5 * kMiB);
  EXPECT_FALSE(pool.allocate(kMine, 1).ok());
}

TEST(SegmentPool, KeepsNoMoreWarmThanItsLimitAndReturnsTheOldestFirst) {
  Pool pool({0, 8 * kMiB});
  const FileRange first = pool.must(kMine, 4 * kMiB);
  const FileRange second = pool.must(kOther, 4 * kMiB);
  const FileRange third = pool.must(kShared, 4 * kMiB);
  pool.segments.free(kOther, second, 4 * kMiB);
  pool.segments.free(kMine, first, 4 * kMiB);
  EXPECT_EQ(pool.segments.warm_bytes(), 8 * kMiB);
  pool.segments.free(kShared, third, 4 * kMiB);
  EXPECT_EQ(pool.segments.warm_bytes(), 8 * kMiB);
  EXPECT_EQ(pool.files.find(first.file), nullptr) << "the oldest one of him who has most";
  EXPECT_NE(pool.files.find(second.file), nullptr);
  EXPECT_NE(pool.files.find(third.file), nullptr);
  EXPECT_EQ(pool.quota.used_by(kMine.uid).warm_bytes, 4 * kMiB);
  EXPECT_EQ(pool.quota.used_by(kOther.uid).warm_bytes, 4 * kMiB);
  EXPECT_EQ(pool.must(kOther, 4 * kMiB).file, second.file);
  EXPECT_EQ(pool.quota.used_by(kOther.uid).warm_bytes, 0U);
}

TEST(SegmentPool, WhoKeepsLittleWarmKeepsItWhereOthersFillTheRest) {
  Pool pool({0, 16 * kMiB});
  pool.segments.free(kOther, pool.must(kOther, 4 * kMiB), 4 * kMiB);
  std::vector<FileRange> many;
  for (int i = 0; i < 8; ++i) many.push_back(pool.must(kMine, 4 * kMiB));
  for (const FileRange& at : many) pool.segments.free(kMine, at, 4 * kMiB);
  EXPECT_EQ(pool.quota.used_by(kOther.uid).warm_bytes, 4 * kMiB);
}

// Else one small array in each large segment would keep any amount of memory from others.
TEST(SegmentPool, AUserIsChargedForTheRoomBesideHisArrays) {
  Pool pool({0, 0});
  pool.quota.set_limits({.segment_bytes = 12 * kMiB});
  const auto left_alone = [&](const AccessDomain& domain) {
    const FileRange large = pool.must(domain, 3 * kMiB);
    pool.must(domain, 100);
    pool.segments.free(domain, large, 3 * kMiB);
  };
  left_alone(kMine);
  left_alone(kShared);
  EXPECT_EQ(pool.quota.used_by(kMine.uid).segment_bytes, 8 * kMiB);
  const auto refused = pool.allocate(kMine, 5 * kMiB);
  EXPECT_EQ(code_of(refused.status()), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(
      wire::hint_of(refused.status()),
      "Withdraw the arrays that have been left alone in large segments, or raise quota_bytes.");
  EXPECT_EQ(pool.quota.used_by(kMine.uid).segment_bytes, 8 * kMiB);
  EXPECT_EQ(pool.quota.used_by(kMine.uid).descriptors, 4U);
  EXPECT_TRUE(pool.allocate(kMine, 3 * kMiB).ok()) << "there is room beside the small ones";
  EXPECT_TRUE(pool.allocate(kOther, 5 * kMiB).ok());
}

TEST(SegmentPool, AUsersWarmSegmentsMakeRoomForHisNextBytes) {
  Pool pool({0, 64 * kMiB});
  pool.quota.set_limits({.segment_bytes = 12 * kMiB});
  pool.segments.free(kOther, pool.must(kOther, 4 * kMiB), 4 * kMiB);
  pool.segments.free(kMine, pool.must(kMine, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(code_of(pool.allocate(kShared, 13 * kMiB).status()), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(pool.quota.used_by(kMine.uid).warm_bytes, 8 * kMiB)
      << "what can never fit costs nobody his warm segments";
  EXPECT_TRUE(pool.allocate(kShared, 8 * kMiB).ok());
  EXPECT_EQ(pool.quota.used_by(kMine.uid).warm_bytes, 0U);
  EXPECT_EQ(pool.quota.used_by(kOther.uid).warm_bytes, 4 * kMiB);
}

TEST(SegmentPool, WarmSegmentsMakeRoomForAnotherClass) {
  Pool pool({8 * kMiB, 8 * kMiB});
  pool.segments.free(kMine, pool.must(kMine, 8 * kMiB), 8 * kMiB);
  ASSERT_EQ(pool.segments.warm_bytes(), 8 * kMiB);
  EXPECT_TRUE(pool.allocate(kOther, 8 * kMiB).ok());
  EXPECT_EQ(pool.segments.warm_bytes(), 0U);
  EXPECT_EQ(pool.memory.live().bytes, 8 * kMiB);
}

// Before there is any memory: who has no descriptor left makes the daemon commit none.
TEST(SegmentPool, ChargesTheDescriptorBeforeItAsksForMemory) {
  Pool pool({0, 0});
  pool.quota.set_limits({0, 0, 0, 4});
  const FileRange taken = pool.must(kMine, 100);
  const auto growth = pool.segments.reserve(kShared, 100, 1);
  ASSERT_TRUE(growth.ok());
  EXPECT_EQ(pool.quota.used_by(kMine.uid).descriptors, 4U);
  EXPECT_EQ(code_of(pool.segments.reserve(kMine, 100, 1).status()), ErrorCode::kQuotaExceeded);
  EXPECT_TRUE(pool.segments.reserve(kOther, 100, 1).ok());
  EXPECT_FALSE(pool.segments.add(*growth, absl::InternalError("no memory")).ok());
  EXPECT_EQ(pool.quota.used_by(kMine.uid).descriptors, 2U);
  pool.segments.free(kMine, taken, 100);
}

TEST(SegmentPool, AUsersWarmSegmentsMakeRoomForHisNextDescriptor) {
  Pool pool({0, 64 * kMiB});
  pool.quota.set_limits({0, 0, 0, 2});
  const FileRange others = pool.must(kOther, 100);
  pool.segments.free(kOther, others, 100);
  pool.segments.free(kMine, pool.must(kMine, 100), 100);
  EXPECT_TRUE(pool.allocate(kShared, 100).ok());
  EXPECT_NE(pool.files.find(others.file), nullptr) << "they are not his";
  EXPECT_EQ(code_of(pool.allocate(kMine, 100).status()), ErrorCode::kQuotaExceeded);
}

// Else a request that can never succeed would cost everybody's warm pages.
TEST(SegmentPool, NewLimitsHoldFromNowOnAndTakeWarmMemoryBack) {
  const std::uint64_t segment = FakeMemory::kSizes.first;
  Pool pool({4 * segment, 4 * segment});
  const FileRange kept = pool.must(kMine, 100);
  pool.segments.free(kShared, pool.must(kShared, 100), 100);
  EXPECT_EQ(pool.segments.memory_bytes(), 2 * segment);
  pool.segments.set_limits({segment, 4 * segment});
  EXPECT_EQ(pool.segments.memory_bytes(), segment) << "the warm one is gone, the used one stays";
  EXPECT_EQ(code_of(pool.allocate(kShared, 100).status()), ErrorCode::kOutOfMemory);
  pool.segments.set_limits({0, 0});
  pool.segments.free(kShared, pool.must(kShared, 100), 100);
  pool.segments.free(kMine, kept, 100);
  EXPECT_EQ(pool.memory.live().files, 0U);
}

TEST(SegmentPool, AHopelessRequestLeavesTheWarmSegmentsAlone) {
  Pool pool({8 * kMiB, 8 * kMiB});
  pool.segments.free(kMine, pool.must(kMine, 4 * kMiB), 4 * kMiB);
  EXPECT_FALSE(pool.allocate(kOther, 100 * kMiB).ok());
  EXPECT_EQ(pool.segments.warm_bytes(), 4 * kMiB);
}

TEST(SegmentPool, AFailedAllocationLeavesNoTrace) {
  Pool pool({0, 0});
  pool.must(kMine, 100);
  const auto live = pool.memory.live();
  pool.memory.fail_from(1);
  EXPECT_EQ(code_of(pool.allocate(kMine, 100 * kMiB).status()), ErrorCode::kOutOfMemory);
  EXPECT_EQ(code_of(pool.allocate(kOther, 1).status()), ErrorCode::kOutOfMemory);
  EXPECT_EQ(pool.memory.live(), live);
  EXPECT_EQ(pool.segments.memory_bytes(), live.bytes);
  pool.memory.never_fail();
  EXPECT_TRUE(pool.allocate(kOther, 1).ok());
}

// An allocation that the pool gave out, with what was asked for.
struct Piece {
  AccessDomain domain;
  FileRange at;
  std::uint64_t bytes;
};

RC_GTEST_PROP(SegmentPool, PiecesAreAlignedApartInsideTheirOwnClassAndWithinTheLimits, ()) {
  const SegmentPool::Limits limits{24 * kMiB, 6 * kMiB};
  Pool pool(limits);
  const std::vector<AccessDomain> domains = {kMine, kShared, kOther};
  std::vector<Piece> pieces;
  std::map<std::uint32_t, AccessDomain> class_of;  // file -> the only class that it ever served
  const auto steps = *rc::gen::container<std::vector<std::tuple<std::uint64_t, std::size_t, bool>>>(
      rc::gen::tuple(rc::gen::inRange<std::uint64_t>(0, 3 * kMiB),
                     rc::gen::inRange<std::size_t>(0, 1000), rc::gen::arbitrary<bool>()));
  for (const auto& [bytes, number, free_one] : steps) {
    if (free_one && !pieces.empty()) {
      const Piece piece = pieces[number % pieces.size()];
      pool.segments.free(piece.domain, piece.at, piece.bytes);
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(number % pieces.size()));
    } else {
      const AccessDomain& domain = domains[number % domains.size()];
      const auto at = pool.allocate(domain, bytes);
      if (!at.ok()) continue;
      const std::uint64_t size = std::max<std::uint64_t>(bytes, 1);
      RC_ASSERT(at->offset % pool.memory.alignment_bytes(size) == 0U);
      RC_ASSERT(at->offset + size <= pool.files.find(at->file)->memory->size_bytes());
      RC_ASSERT(class_of.emplace(wire::to_int(at->file), domain).first->second == domain);
      for (const Piece& piece : pieces) {
        const std::uint64_t other = std::max<std::uint64_t>(piece.bytes, 1);
        RC_ASSERT(piece.at.file != at->file || at->offset >= piece.at.offset + other ||
                  piece.at.offset >= at->offset + size);
      }
      pieces.push_back({domain, *at, bytes});
    }
    RC_ASSERT(pool.segments.memory_bytes() <= limits.memory_bytes);
    RC_ASSERT(pool.segments.warm_bytes() <= limits.warm_bytes);
    RC_ASSERT(pool.segments.memory_bytes() == pool.memory.live().bytes);
  }
  for (const Piece& piece : pieces) pool.segments.free(piece.domain, piece.at, piece.bytes);
  RC_ASSERT(pool.segments.memory_bytes() == pool.segments.warm_bytes());
}

// Of these uids one has warm segments, and the others, whose account it is, too, have none.
TEST(SegmentPool, WarmSegmentsOfAnAccountGoWhicheverUidHasThem) {
  Pool pool({32 * kMiB, 32 * kMiB});
  pool.payers.set({{1000, 100'000, 65'536}});
  std::vector<AccessDomain> domains;
  for (uid_t uid = 100'000; uid < 100'008; ++uid) domains.push_back({uid, uid, 0600});
  std::vector<FileRange> kept;
  for (const AccessDomain& domain : domains) {
    if (kept.size() < 4) kept.push_back(pool.must(domain, 2 * kMiB));
  }
  const FileRange warm = pool.must(domains[7], 12 * kMiB);
  pool.segments.free(domains[7], warm, 12 * kMiB);
  EXPECT_EQ(pool.segments.warm_bytes(), 12 * kMiB);
  const FileRange other = pool.must(kOther, 10 * kMiB);
  EXPECT_EQ(pool.segments.warm_bytes(), 0U);
  pool.segments.free(kOther, other, 10 * kMiB);
  for (std::size_t i = 0; i < kept.size(); ++i) pool.segments.free(domains[i], kept[i], 2 * kMiB);
  pool.segments.set_limits({32 * kMiB, 0});
  EXPECT_EQ(pool.memory.live().files, 0U);
}

TEST(SegmentPool, WhatSomebodyCanStillWriteCountsUntilHeCannot) {
  Pool pool({32 * kMiB, 0});
  const FileRange at = pool.must(kMine, 20 * kMiB);
  auto writer = pool.files.find(at.file)->memory->export_fd(true);
  ASSERT_TRUE(writer.ok());
  pool.segments.free(kMine, at, 20 * kMiB);
  EXPECT_EQ(pool.segments.memory_bytes(), 20 * kMiB);
  EXPECT_EQ(pool.quota.used_by(1000).segment_bytes, 20 * kMiB);
  for (const AccessDomain& domain : {kMine, kOther}) {
    const auto status = pool.allocate(domain, 20 * kMiB).status();
    EXPECT_EQ(code_of(status), ErrorCode::kOutOfMemory);
    EXPECT_THAT(wire::message_of(status), HasSubstr("20971520 of them of arrays that have gone"));
  }
  writer->reset();
  testing::let_go(pool.heap);
  const FileRange again = pool.must(kMine, 20 * kMiB);
  EXPECT_EQ(pool.segments.memory_bytes(), 20 * kMiB);
  EXPECT_EQ(pool.quota.used_by(1000).segment_bytes, 20 * kMiB);
  pool.segments.free(kMine, again, 20 * kMiB);
}

}  // namespace
}  // namespace memlease::server
