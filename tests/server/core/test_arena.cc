#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "server/core/arena.h"

namespace memlease::server {
namespace {

// The naive model: which ranges are taken, and nothing else.
class TakenRanges {
 public:
  explicit TakenRanges(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  bool overlaps(std::uint64_t offset, std::uint64_t size) const {
    return std::any_of(taken_.begin(), taken_.end(), [&](const auto& range) {
      return offset < range.first + range.second && range.first < offset + size;
    });
  }
  // Is there room anywhere for an aligned block?
  bool fits(std::uint64_t size, std::uint64_t alignment) const {
    for (std::uint64_t offset = 0; offset + size <= size_bytes_; offset += alignment) {
      if (!overlaps(offset, size)) return true;
    }
    return false;
  }
  void take(std::uint64_t offset, std::uint64_t size) { taken_[offset] = size; }
  // Gives its size.
  std::uint64_t release(std::uint64_t offset) { return taken_.extract(offset).mapped(); }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [offset, size] : taken_) sum += size;
    return sum;
  }
  std::vector<std::uint64_t> offsets() const {
    std::vector<std::uint64_t> found;
    for (const auto& [offset, size] : taken_) found.push_back(offset);
    return found;
  }

 private:
  const std::uint64_t size_bytes_;
  std::map<std::uint64_t, std::uint64_t> taken_;
};

// A size of 0 stands for "free one of those that are allocated".
using Step = std::pair<std::uint64_t, std::uint32_t>;  // size, log2 of alignment, or which one

RC_GTEST_PROP(Arena, AgreesWithTheNaiveModelOnWhatFitsAndReturnsAllSpace, ()) {
  const auto size = *rc::gen::inRange<std::uint64_t>(1, 2048);
  const auto steps = *rc::gen::container<std::vector<Step>>(rc::gen::pair(
      rc::gen::inRange<std::uint64_t>(0, 300), rc::gen::inRange<std::uint32_t>(0, 9)));
  Arena arena(size);
  TakenRanges model(size);
  for (const auto& [bytes, number] : steps) {
    if (bytes == 0) {
      const auto offsets = model.offsets();
      if (offsets.empty()) continue;
      const std::uint64_t offset = offsets[number % offsets.size()];
      arena.free(offset, model.release(offset));
    } else {
      const std::uint64_t alignment = std::uint64_t{1} << number;
      const auto offset = arena.allocate(bytes, alignment);
      RC_ASSERT(offset.has_value() == model.fits(bytes, alignment));
      if (!offset) continue;
      RC_ASSERT(*offset % alignment == 0U);
      RC_ASSERT(*offset + bytes <= size);
      RC_ASSERT(!model.overlaps(*offset, bytes));
      model.take(*offset, bytes);
    }
    RC_ASSERT(arena.used_bytes() == model.bytes());
    RC_ASSERT(arena.empty() == model.offsets().empty());
  }
  for (const std::uint64_t offset : model.offsets()) {
    arena.free(offset, model.release(offset));
  }
  RC_ASSERT(arena.empty());
  // One gap again, not the same bytes in pieces.
  RC_ASSERT(arena.allocate(size, 1) == std::optional<std::uint64_t>(0));
}

TEST(Arena, TakesTheSmallestGapThatFits) {
  Arena arena(1000);
  ASSERT_EQ(arena.allocate(300, 1), 0U);
  ASSERT_EQ(arena.allocate(100, 1), 300U);
  ASSERT_EQ(arena.allocate(50, 1), 400U);
  ASSERT_EQ(arena.allocate(100, 1), 450U);
  arena.free(0, 300);
  arena.free(400, 50);
  EXPECT_EQ(arena.allocate(40, 1), 400U);
  EXPECT_EQ(arena.allocate(40, 1), 0U);
}

TEST(Arena, SkipsAGapThatOnlyItsAlignmentMakesTooSmall) {
  Arena arena(256);
  ASSERT_EQ(arena.allocate(1, 1), 0U);
  ASSERT_EQ(arena.allocate(100, 1), 1U);
  ASSERT_EQ(arena.allocate(27, 1), 101U);
  arena.free(1, 100);  // 100 bytes, of which 64 stand behind an aligned offset no more than 37 long
  EXPECT_EQ(arena.allocate(64, 64), 128U);
}

// Else who has many would make each step take long for all.
TEST(Arena, TriesFewGapsThatOnlyTheirAlignmentMakesTooSmall) {
  Arena arena(100 * 128 + 1024);
  for (std::uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(arena.allocate(1, 1), 128 * i);
    ASSERT_EQ(arena.allocate(127, 1), (128 * i) + 1);
  }
  const auto last = arena.allocate(1024, 1);
  for (std::uint64_t i = 0; i < 99; ++i) arena.free((128 * i) + 1, 100);
  arena.free((128 * 99) + 16, 105);
  EXPECT_EQ(arena.allocate(100, 16), std::nullopt) << "one would do, behind 99 that do not";
  arena.free(*last, 1024);
  EXPECT_EQ(arena.allocate(100, 16), last);
}

TEST(Arena, OfNoBytesHasRoomForNothing) {
  Arena arena(0);
  EXPECT_EQ(arena.allocate(1, 1), std::nullopt);
  EXPECT_TRUE(arena.empty());
}

}  // namespace
}  // namespace memlease::server
