#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "wire/array_spec.h"
#include "wire/error.h"

namespace memlease::wire {
namespace {

using ::testing::HasSubstr;
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

ArraySpec good() {
  ArraySpec spec;
  spec.name = "sim/rank-0/u_v.1";
  spec.shape = {4, 8};
  return spec;
}

struct Bad {
  std::string name;
  std::function<void(ArraySpec&)> spoil;
  std::string says;  // a part of the message
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

Bad bad_name(std::string name, const std::string& value, std::string says) {
  return {"Name" + std::move(name), [value](ArraySpec& s) { s.name = value; }, std::move(says)};
}
Bad bad_shape(std::string name, const std::vector<std::int64_t>& shape, std::string says) {
  return {"Shape" + std::move(name), [shape](ArraySpec& s) { s.shape = shape; }, std::move(says)};
}
// Of shape (4, 8) and float32.
Bad bad_strides(std::string name, const std::vector<std::int64_t>& strides, std::string says) {
  return {"Strides" + std::move(name), [strides](ArraySpec& s) { s.strides_bytes = strides; },
          std::move(says)};
}
Bad bad_mode(std::string name, std::uint32_t mode, std::string says) {
  return {"Mode" + std::move(name), [mode](ArraySpec& s) { s.mode = mode; }, std::move(says)};
}
Bad bad_dtype(std::string name, DType dtype) {
  return {"DType" + std::move(name), [dtype](ArraySpec& s) { s.dtype = dtype; }, "dtype"};
}
Bad bad_slots(std::string name, std::uint32_t slots) {
  return {"Slots" + std::move(name), [slots](ArraySpec& s) { s.slots = slots; }, "slots"};
}

Bad bad_max_slots(std::string name, std::uint32_t slots, std::uint32_t max_slots) {
  return {"MaxSlots" + std::move(name),
          [=](ArraySpec& s) {
            s.slots = slots;
            s.max_slots = max_slots;
          },
          "max_slots"};
}

const Bad kBad[] = {
    bad_name("Empty", "", "empty"),
    bad_name("TooLong", std::string(256, 'a'), "256 bytes"),
    bad_name("Slash", "/", "part ''"),
    bad_name("LeadingSlash", "/a", "part ''"),
    bad_name("TrailingSlash", "a/", "part ''"),
    bad_name("DoubleSlash", "a//b", "part ''"),
    bad_name("Dot", "a/./b", "part '.'"),
    bad_name("DotDot", "..", "part '..'"),
    bad_name("Space", "a b", "0x20 at position 1"),
    bad_name("Newline", "ab\n", "0x0a at position 2"),
    bad_name("Nul", std::string("a\0b", 3), "0x00 at position 1"),
    bad_name("Umlaut", "s/\xc3\xbc", "0xc3 at position 2"),
    bad_name("Backslash", "a\\b", "0x5c"),
    bad_name("Pattern", "a*", "0x2a"),
    bad_shape("Negative", {4, -1}, "negative extent -1"),
    bad_shape("NegativeBesideZero", {0, -1}, "negative extent -1"),
    bad_shape("TooManyDimensions", std::vector<std::int64_t>(33, 1), "33 dimensions"),
    bad_shape("TooLarge", {std::int64_t{1} << 45}, "needs more than"),
    bad_shape("Overflowing", {kHuge, kHuge, kHuge}, "needs more than"),
    bad_shape("OverflowingToZero", {std::int64_t{1} << 32, std::int64_t{1} << 32}, "needs more"),
    bad_shape("OverflowingBesideZero", {0, kHuge, kHuge}, "needs more than"),
    bad_strides("TooFew", {4}, "differ in length"),
    bad_strides("TooMany", {64, 32, 4}, "differ in length"),
    bad_strides("Zero", {0, 4}, "overlap"),
    bad_strides("Negative", {-32, 4}, "overlap"),
    bad_strides("OverlappingRows", {28, 4}, "overlap"),
    bad_strides("Interleaved", {4, 8}, "overlap"),
    bad_strides("Unaligned", {33, 4}, "not a multiple"),
    bad_strides("Overflowing", {kHuge - 3, 4}, "needs more than"),
    bad_strides("TooLarge", {std::int64_t{1} << 45, 4}, "needs more than"),
    bad_dtype("UnknownBits", {DTypeCode::kFloat, 24, 1}),
    bad_dtype("NoBits", {DTypeCode::kInt, 0, 1}),
    bad_dtype("Lanes", {DTypeCode::kFloat, 32, 4}),
    bad_dtype("NoLanes", {DTypeCode::kFloat, 32, 0}),
    bad_dtype("UnknownCode", {static_cast<DTypeCode>(200), 32, 1}),
    bad_dtype("OpaqueHandle", {static_cast<DTypeCode>(3), 64, 1}),
    bad_slots("None", 0),
    bad_slots("TooMany", 65),
    bad_slots("Huge", UINT32_MAX),
    bad_max_slots("FewerThanSlots", 3, 2),
    bad_max_slots("TooMany", 3, 65),
    bad_max_slots("OfOneSlot", 1, 2),
    bad_mode("Execute", 0700, "beside read and write"),
    bad_mode("SetUid", 04600, "beside read and write"),
    bad_mode("Directory", 0100600, "beside read and write"),
    bad_mode("OwnerCannotWrite", 0440, "locks the owner out"),
    bad_mode("Nobody", 0, "locks the owner out"),
    {"LifetimeUnknown", [](ArraySpec& s) { s.lifetime = static_cast<Lifetime>(3); }, "lifetime"},
    {"WriterUnknown", [](ArraySpec& s) { s.writer = static_cast<Writer>(3); }, "writer"},
};

std::uint32_t max_slots_of(std::uint32_t slots, std::int64_t slot_bytes,
                           std::uint32_t max_slots = 0, const char* device = "host") {
  ArraySpec spec = good();
  spec.dtype = {DTypeCode::kUInt, 8, 1};
  spec.shape = {slot_bytes};
  spec.slots = slots;
  spec.max_slots = max_slots;
  spec.device = device;
  EXPECT_TRUE(validate(spec).ok()) << validate(spec);
  return wire::max_slots_of(spec);
}

TEST(MaxSlots, AreSixtyFourOfASmallArrayAndElseEightTimesItsSlots) {
  constexpr std::int64_t kMiB = 1 << 20;
  EXPECT_EQ(max_slots_of(3, kMiB), 64U);
  EXPECT_EQ(max_slots_of(2, 0), 64U);
  EXPECT_EQ(max_slots_of(3, kMiB + 1), 24U);
  EXPECT_EQ(max_slots_of(20, 64 * kMiB), 64U);
  EXPECT_EQ(max_slots_of(3, 64 * kMiB, 5), 5U);
  EXPECT_EQ(max_slots_of(3, kMiB, 3), 3U);
  EXPECT_EQ(max_slots_of(3, kMiB + 1, 0, "GPU-0"), 24U) << "as on the host";
}

TEST(MaxSlots, AreItsSlotsWhereAnArrayCannotGrow) {
  EXPECT_EQ(max_slots_of(1, 8), 1U);
  EXPECT_EQ(max_slots_of(1, 8, 1), 1U);
}

class BadArraySpec : public ::testing::TestWithParam<Bad> {};
INSTANTIATE_TEST_SUITE_P(, BadArraySpec, ::testing::ValuesIn(kBad),
                         [](const auto& test) { return test.param.name; });

TEST_P(BadArraySpec, IsRefusedWithTheReasonAndWhatToDo) {
  ArraySpec spec = good();
  ASSERT_TRUE(validate(spec).ok()) << validate(spec);
  GetParam().spoil(spec);
  const absl::Status status = validate(spec);
  EXPECT_EQ(code_of(status), ErrorCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().says));
  EXPECT_NE(hint_of(status), "");
}

TEST(ArraySpec, TakesEveryLayoutThatIsSound) {
  const std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> layouts = {
      {{}, {}},           // a scalar
      {{0}, {}},          // nothing
      {{5, 0, 3}, {}},    // nothing, in three dimensions
      {{4, 8}, {32, 4}},  // C order
      {{4, 8}, {4, 16}},  // Fortran order
      {{4, 8}, {64, 8}},  // with gaps
      {{1, 8}, {0, 4}},   // what is never stepped over may be anything
      {{1, 8}, {-4, 4}},
      {{std::int64_t{1} << 44}, {}},  // as large as an array may be
      {std::vector<std::int64_t>(32, 1), {}},
  };
  for (const auto& [shape, strides] : layouts) {
    ArraySpec spec = good();
    spec.shape = shape;
    spec.strides_bytes = strides;
    EXPECT_TRUE(validate(spec).ok()) << validate(spec);
  }
}

TEST(ArraySpec, SizeReachesFromTheFirstElementToTheLast) {
  ArraySpec spec = good();
  EXPECT_EQ(size_bytes_of(spec), 4U * 8 * 4);
  spec.strides_bytes = {64, 8};
  EXPECT_EQ(size_bytes_of(spec), 3U * 64 + 7 * 8 + 4);
  spec.shape = {4, 0};
  EXPECT_EQ(size_bytes_of(spec), 0U);
  spec.shape = {};
  spec.strides_bytes = {};
  EXPECT_EQ(size_bytes_of(spec), 4U);
}

TEST(ArraySpec, TakesNamesUpToTheirLimit) {
  for (const std::string& name : {std::string("a"), std::string(255, 'z'), std::string("a.b/..c"),
                                  std::string("A-Z_0.9/..."), std::string("-")}) {
    EXPECT_TRUE(validate_name(name).ok()) << name;
  }
}

// Small numbers of every kind, so that many layouts are sound and many are just not.
RC_GTEST_PROP(ArraySpec, AValidatedLayoutHasEveryElementInsideAndApart, ()) {
  ArraySpec spec = good();
  spec.dtype = *rc::gen::element(DType{DTypeCode::kUInt, 8, 1}, DType{DTypeCode::kInt, 16, 1},
                                 DType{DTypeCode::kFloat, 64, 1});
  const auto dims = *rc::gen::inRange<std::size_t>(0, 5);
  const std::int64_t itemsize = spec.dtype.itemsize_bytes();
  spec.shape.clear();
  for (std::size_t i = 0; i < dims; ++i) {
    spec.shape.push_back(*rc::gen::inRange<std::int64_t>(0, 5));
    spec.strides_bytes.push_back(*rc::gen::inRange<std::int64_t>(-2, 40) * itemsize);
  }
  RC_PRE(validate(spec).ok());
  const std::uint64_t size = size_bytes_of(spec);
  std::vector<bool> taken(size);
  std::uint64_t count = 1;
  for (const std::int64_t extent : spec.shape) count *= static_cast<std::uint64_t>(extent);
  for (std::uint64_t flat = 0; flat < count; ++flat) {
    std::uint64_t rest = flat;
    std::int64_t offset = 0;
    for (std::size_t dim = 0; dim < dims; ++dim) {
      offset += static_cast<std::int64_t>(rest % static_cast<std::uint64_t>(spec.shape[dim])) *
                strides_bytes_of(spec)[dim];
      rest /= static_cast<std::uint64_t>(spec.shape[dim]);
    }
    RC_ASSERT(offset >= 0 && offset % itemsize == 0);
    RC_ASSERT(static_cast<std::uint64_t>(offset + itemsize) <= size);
    for (std::int64_t i = offset; i < offset + itemsize; ++i) {
      RC_ASSERT(!taken[static_cast<std::size_t>(i)]);
      taken[static_cast<std::size_t>(i)] = true;
    }
  }
}

// Numbers at the edges of their types: nothing overflows, and the limit holds.
RC_GTEST_PROP(ArraySpec, NoLayoutOfAnySizeGetsPastTheLimit, ()) {
  ArraySpec spec = good();
  const auto number = rc::gen::weightedOneOf<std::int64_t>(
      {{2, rc::gen::inRange<std::int64_t>(0, 8)},
       {1, rc::gen::map(rc::gen::inRange(0, 63), [](int b) { return std::int64_t{1} << b; })},
       {1, rc::gen::arbitrary<std::int64_t>()}});
  spec.shape = *rc::gen::container<std::vector<std::int64_t>>(number);
  if (*rc::gen::arbitrary<bool>()) {
    spec.strides_bytes = *rc::gen::container<std::vector<std::int64_t>>(spec.shape.size(), number);
  }
  if (validate(spec).ok()) RC_ASSERT(size_bytes_of(spec) <= kMaxArrayBytes);
}

TEST(OpenedName, IsAnArraysOrAReplicas) {
  for (const char* name : {"u", "sim/u", "u@host", "sim/u@GPU-12ab"}) {
    EXPECT_TRUE(validate_opened_name(name).ok()) << name;
  }
  for (const char* name : {"", "@host", "/u@host", "u@", "u@a b", "u@host/x", "u@a@b"}) {
    EXPECT_EQ(code_of(validate_opened_name(name)), ErrorCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace memlease::wire
