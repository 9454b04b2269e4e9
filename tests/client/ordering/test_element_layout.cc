#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "client/ordering/element_layout.h"
#include "gmock/gmock.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

wire::ArraySpec spec_of(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}) {
  wire::ArraySpec spec;
  spec.name = "u";
  spec.dtype = wire::DType{wire::DTypeCode::kFloat, 32, 1};
  spec.shape = std::move(shape);
  spec.strides_bytes = std::move(strides);
  return spec;
}

absl::StatusOr<ElementLayout> part_of(const wire::ArraySpec& spec, const Region& region) {
  return layout_of(spec, spec.name, region);
}

// Offsets of all elements, in C order.
std::vector<std::int64_t> offsets_of(const ElementLayout& layout) {
  std::vector<std::int64_t> offsets = {layout.offset_bytes};
  for (std::size_t axis = 0; axis < layout.shape.size(); ++axis) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < layout.shape[axis]; ++i) {
        next.push_back(offset + i * layout.strides_bytes[axis]);
      }
    }
    offsets = std::move(next);
  }
  return offsets;
}

// The same by what Region's comment says, axis by axis.
std::vector<std::int64_t> offsets_by_the_words(const wire::ArraySpec& spec, const Region& region) {
  const auto strides = wire::strides_bytes_of(spec);
  std::vector<std::int64_t> offsets = {0};
  for (std::size_t axis = 0; axis < spec.shape.size(); ++axis) {
    const std::int64_t extent = spec.shape[axis];
    const Region::Axis part = axis < region.axes().size() ? region.axes()[axis] : Range();
    std::vector<std::int64_t> indices;
    if (part.is_index()) {
      indices = {part.index() < 0 ? part.index() + extent : part.index()};
    } else {
      const Range& range = part.range();
      const std::int64_t begin = range.begin < 0 ? range.begin + extent : range.begin;
      const std::int64_t end = range.end < 0 ? range.end + extent : std::min(range.end, extent);
      for (std::int64_t i = begin; i < end; i += range.step) indices.push_back(i);
    }
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets) {
      for (const std::int64_t i : indices) next.push_back(offset + i * strides[axis]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

Region random_region(const std::vector<std::int64_t>& shape) {
  std::vector<Region::Axis> axes;
  const auto given = *rc::gen::inRange<std::size_t>(0, shape.size() + 1);
  for (std::size_t axis = 0; axis < given; ++axis) {
    const std::int64_t extent = shape[axis];
    if (extent > 0 && *rc::gen::inRange(0, 3) == 0) {
      axes.emplace_back(*rc::gen::inRange<std::int64_t>(-extent, extent));
      continue;
    }
    Range range;
    range.begin = *rc::gen::inRange<std::int64_t>(0, extent + 1);
    range.end = *rc::gen::inRange<std::int64_t>(range.begin, extent + 1);
    range.step = *rc::gen::inRange<std::int64_t>(1, 7);
    if (range.end == extent && *rc::gen::arbitrary<bool>()) range.end = Range::kToEnd;
    if (range.begin < extent && *rc::gen::arbitrary<bool>()) range.begin -= extent;
    axes.emplace_back(range);
  }
  return Region(axes);
}

RC_GTEST_PROP(ElementLayout, OfARegionIsWhereItsWordsSay, ()) {
  std::vector<std::int64_t> shape;
  const auto dims = *rc::gen::inRange<std::size_t>(0, 5);
  for (std::size_t i = 0; i < dims; ++i) shape.push_back(*rc::gen::inRange<std::int64_t>(0, 6));
  wire::ArraySpec spec = spec_of(shape);
  if (*rc::gen::arbitrary<bool>()) {  // Fortran's order, with a gap behind each column
    std::int64_t stride = 4;
    for (const std::int64_t extent : shape) {
      spec.strides_bytes.push_back(stride);
      stride *= std::max<std::int64_t>(extent, 1) + 1;
    }
  }
  RC_ASSERT(wire::validate(spec).ok());
  const Region region = random_region(shape);
  const auto part = part_of(spec, region);
  RC_ASSERT(part.ok());
  const auto offsets = offsets_of(*part);
  RC_ASSERT(offsets == offsets_by_the_words(spec, region));
  RC_ASSERT(element_bytes(*part) == 4 * offsets.size());
  if (!offsets.empty()) {
    const auto last = static_cast<std::uint64_t>(offsets.back() - offsets.front()) + 4;
    RC_ASSERT(extent_bytes(*part) == last);
    RC_ASSERT(static_cast<std::uint64_t>(offsets.back()) + 4 <= wire::size_bytes_of(spec));
  }
}

TEST(ElementLayout, AnIndexDropsItsAxis) {
  const auto column = part_of(spec_of({4, 6}), {Range{1, -1}, -1});
  ASSERT_TRUE(column.ok());
  EXPECT_THAT(column->shape, ElementsAre(2));
  EXPECT_THAT(column->strides_bytes, ElementsAre(24));
  EXPECT_EQ(column->offset_bytes, 24 + 20);
}

TEST(ElementLayout, WithoutElementsNoStrideIsComputedWith) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const auto none = part_of(spec_of({0, 6}, {huge, huge}), {Range(), Range{2, 5, 2}});
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(none->shape, ElementsAre(0, 2));
  EXPECT_EQ(none->offset_bytes, 0);
  EXPECT_EQ(extent_bytes(*none), 0U);
}

TEST(ElementLayout, AnAxisOfOneElementMayHaveAnyStride) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const wire::ArraySpec spec = spec_of({1, 1, 3}, {huge, huge, 4});
  const auto none = part_of(spec, {Range{1}, Range{1}, 2});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->offset_bytes, 0);
  const auto one = part_of(spec, {0, Range{0, 1, 5}, 2});
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(one->shape, ElementsAre(1));
  EXPECT_EQ(one->offset_bytes, 8);
  EXPECT_EQ(extent_bytes(*one), 4U);
}

TEST(ElementLayout, AStepBeyondTheAxisIsASingleElement) {
  const auto one = part_of(spec_of({6}), {Range{2, 5, std::numeric_limits<std::int64_t>::max()}});
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(one->shape, ElementsAre(1));
  EXPECT_EQ(one->offset_bytes, 8);
}

struct Misfit {
  Region region;
  std::string says;
};

TEST(ElementLayout, ARegionThatDoesNotFitIsRefused) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (const Misfit& misfit : std::vector<Misfit>{
           {{0, 0, 0}, "has 3 axes, and the array 2"},
           {{4}, "has index 4 of axis 0, which has 4 elements Give one from -4 to 3."},
           {{0, -7}, "has index -7 of axis 1"},
           {{least}, "has index -9223372036854775808 of axis 0"},
           {{Range{0, 5}}, "goes from 0 to 5 on axis 0, which has 4 elements"},
           {{Range{5}}, "goes from 5 to the end on axis 0"},
           {{Range{-5, 2}}, "goes from -5 to 2 on axis 0"},
           {{Range{3, 2}}, "goes from 3 to 2 on axis 0"},
           {{Range{0, least}}, "goes from 0 to -9223372036854775808"},
           {{Range{0, 4, 0}}, "has step 0 on axis 0"},
           {{Range{}, Range{5, 0, -1}}, "has step -1 on axis 1"},
       }) {
    const auto refused = part_of(spec_of({4, 6}), misfit.region).status();
    EXPECT_EQ(wire::code_of(refused), wire::ErrorCode::kInvalidArgument);
    const std::string text = wire::message_of(refused) + " " + wire::hint_of(refused);
    EXPECT_THAT(text, HasSubstr("a region of 'u' (float32[4,6]) "));
    EXPECT_THAT(text, HasSubstr(misfit.says));
  }
}

}  // namespace
}  // namespace memlease::internal
