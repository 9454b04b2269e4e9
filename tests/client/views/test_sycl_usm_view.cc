#include <gtest/gtest.h>
#include <memlease/error.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "client/views/strides.h"
#include "client/views/sycl_usm_view.h"

namespace memlease::views {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

const DType kFloat = parse_dtype("float32");

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

std::string refusal_of(const UsmArray& array) {
  return refusal_of([&] { locate_usm(array); });
}

TEST(SyclUsmView, CountsInElementsAndBack) {
  const UsmArray array = describe_usm(kFloat, {4, 6}, {4, 16});
  EXPECT_EQ(array.typestr, "<f4");
  EXPECT_EQ(array.strides, std::vector<std::int64_t>({1, 4}));
  EXPECT_EQ(array.offset, 0);
  const UsmBytes bytes = locate_usm(array);
  EXPECT_EQ(name_of(bytes.dtype), "float32");
  EXPECT_EQ(bytes.strides_bytes, std::vector<std::int64_t>({4, 16}));
  EXPECT_EQ(bytes.begin, 0);
  EXPECT_EQ(bytes.first, 0);
  EXPECT_EQ(bytes.size_bytes, 4 * 6 * 4);
}

TEST(SyclUsmView, COrderAndNoElementsHaveNoStrides) {
  EXPECT_EQ(describe_usm(kFloat, {4, 6}, {24, 4}).strides, std::nullopt);
  EXPECT_EQ(describe_usm(kFloat, {4, 0}, {4, 16}).strides, std::nullopt);
  EXPECT_EQ(describe_usm(kFloat, {}, {}).strides, std::nullopt);
}

TEST(SyclUsmView, ElementsLieBelowAndBehindData) {
  const UsmBytes reversed = locate_usm({"<f4", {5}, {{-2}}, 10});
  EXPECT_EQ(reversed.begin, 2 * 4);
  EXPECT_EQ(reversed.first, 8 * 4);
  EXPECT_EQ(reversed.size_bytes, 9 * 4);
  const UsmBytes one = locate_usm({"<f4", {}, std::nullopt, -3});
  EXPECT_EQ(one.begin, -3 * 4);
  EXPECT_EQ(one.size_bytes, 4);
}

TEST(SyclUsmView, NoElementsAreNowhere) {
  const UsmBytes none = locate_usm({"<f4", {3, 0}, {{kMost, kLeast}}, kMost});
  EXPECT_EQ(none.size_bytes, 0);
  EXPECT_EQ(none.begin, 0);
}

TEST(SyclUsmView, StridesOfOneElementMeanNothing) {
  const UsmBytes bytes = locate_usm({"<f4", {1, 2}, {{kMost, 1}}, 0});
  EXPECT_EQ(bytes.strides_bytes, std::vector<std::int64_t>({8, 4}));
  EXPECT_EQ(bytes.size_bytes, 8);
}

TEST(SyclUsmView, TypesAreTheInterfaces) {
  for (const char* type : {"<f4", "=f4", "|f4", "f4"}) {
    EXPECT_EQ(name_of(locate_usm({type, {2}, {}, 0}).dtype), "float32") << type;
  }
  EXPECT_EQ(name_of(locate_usm({">u1", {2}, {}, 0}).dtype), "uint8");
  for (const char* type : {"float32", "<V2", "<M8", "O", "S1", "<", "", "f", "<f4x", "bfloat16"}) {
    EXPECT_NE(refusal_of({type, {2}, {}, 0}).find("has typestr"), std::string::npos) << type;
  }
  EXPECT_NE(refusal_of({">f4", {2}, {}, 0}).find("other byte order"), std::string::npos);
  EXPECT_NE(refusal_of({"<f16", {2}, {}, 0}).find("'f16' is not known"), std::string::npos);
  EXPECT_NE(refusal_of([] { describe_usm(parse_dtype("bfloat16"), {2}, {2}); }).find("bfloat16"),
            std::string::npos);
}

TEST(SyclUsmView, WhatCannotBeIsRefused) {
  const std::vector<std::int64_t> many(65, 1);
  for (const UsmArray& array : std::vector<UsmArray>{
           {"<f4", {-1}, {}, 0},
           {"<f4", {kMost}, {}, 0},
           {"<f4", {1LL << 40, 1LL << 40}, {}, 0},
           {"<f4", {0, 1LL << 40, 1LL << 40}, {}, 0},
           {"<f4", many, {}, 0},
           {"<f4", {2, 2}, {{1}}, 0},
           {"<f4", {2}, {{kMost}}, 0},
           {"<f4", {2}, {{kLeast}}, 0},
           {"<f4", {3}, {{kMost / 4}}, 0},
           {"<f4", {3}, {{kLeast / 4}}, 0},
           {"<f4", {2, 2}, {{kMost / 4, kLeast / 4}}, 0},
           {"<f4", {2}, {{1}}, kMost},
           {"<f4", {2}, {{-1}}, kLeast / 4},
       }) {
    EXPECT_NE(refusal_of(array).find("correct its producer"), std::string::npos)
        << array.shape.size() << " " << array.offset;
  }
  EXPECT_NE(refusal_of([] { describe_usm(kFloat, {2}, {6}); }).find("not a multiple"),
            std::string::npos);
}

// Whatever an array is: the same elements are at the same places, and these are all within the
// span.
RC_GTEST_PROP(SyclUsmView, SaysWhereEachElementIs, ()) {
  const auto shape = *rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::inRange(1L, 5L));
  const auto strides =
      *rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::inRange(-40L, 40L));
  const auto offset = *rc::gen::inRange(-100L, 100L);
  const UsmBytes bytes = locate_usm({"<f4", shape, strides, offset});
  std::int64_t lowest = kMost;
  std::int64_t highest = kLeast;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      for (std::int64_t k = 0; k < shape[2]; ++k) {
        const std::int64_t there = 4 * (offset + i * strides[0] + j * strides[1] + k * strides[2]);
        RC_ASSERT(bytes.begin + bytes.first + i * bytes.strides_bytes[0] +
                      j * bytes.strides_bytes[1] + k * bytes.strides_bytes[2] ==
                  there);
        lowest = std::min(lowest, there);
        highest = std::max(highest, there + 4);
      }
    }
  }
  RC_ASSERT(bytes.begin == lowest);
  RC_ASSERT(bytes.size_bytes == highest - lowest);
}

RC_GTEST_PROP(SyclUsmView, TellsTheSameArrayBack, ()) {
  const auto shape = *rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::inRange(1L, 5L));
  auto strides = *rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::inRange(-40L, 40L));
  const std::vector<std::int64_t> compact = c_order_strides(shape, kFloat);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    strides[i] = shape[i] == 1 ? compact[i] : 4 * strides[i];
  }
  RC_ASSERT(locate_usm(describe_usm(kFloat, shape, strides)).strides_bytes == strides);
}

}  // namespace
}  // namespace memlease::views
