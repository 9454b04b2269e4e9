#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "client/ordering/strided_copy.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"

namespace memlease::internal {
namespace {

using Bytes = std::vector<std::byte>;

// A sound layout: dimensions in any order of memory, with gaps here and there.
wire::ArraySpec random_layout() {
  wire::ArraySpec spec;
  spec.name = "u";
  spec.dtype = *rc::gen::element(wire::DType{wire::DTypeCode::kUInt, 8, 1},
                                 wire::DType{wire::DTypeCode::kFloat, 32, 1},
                                 wire::DType{wire::DTypeCode::kComplex, 128, 1});
  const auto dims = *rc::gen::inRange<std::size_t>(0, 5);
  for (std::size_t i = 0; i < dims; ++i) {
    spec.shape.push_back(*rc::gen::weightedElement<std::int64_t>({{1, 0}, {4, 1}, {8, 2}, {8, 5}}));
  }
  if (*rc::gen::inRange(0, 4) == 0) return spec;  // C order
  std::vector<std::size_t> order(dims);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = dims; i > 1; --i) {
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  }
  spec.strides_bytes.resize(dims);
  std::int64_t stride = spec.dtype.itemsize_bytes();
  for (const std::size_t dim : order) {
    stride += *rc::gen::inRange<std::int64_t>(0, 3) * spec.dtype.itemsize_bytes();
    spec.strides_bytes[dim] = stride;
    stride *= std::max<std::int64_t>(spec.shape[dim], 1);
  }
  return spec;
}

// Element by element, by its index alone.
template <typename Visit>
void for_each_element(const wire::ArraySpec& spec, Visit visit) {
  const auto strides = wire::strides_bytes_of(spec);
  const std::size_t itemsize = spec.dtype.itemsize_bytes();
  const std::size_t count = element_bytes(layout_of(spec)) / itemsize;
  for (std::size_t flat = 0; flat < count; ++flat) {
    std::size_t rest = flat;
    std::size_t offset = 0;
    for (std::size_t dim = spec.shape.size(); dim-- > 0;) {
      const auto extent = static_cast<std::size_t>(spec.shape[dim]);
      offset += rest % extent * static_cast<std::size_t>(strides[dim]);
      rest /= extent;
    }
    visit(offset, flat * itemsize, itemsize);
  }
}

Bytes random_bytes(std::size_t size) {
  Bytes bytes(size);
  auto state = *rc::gen::arbitrary<std::uint32_t>();
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

RC_GTEST_PROP(StridedCopy, CopiesOutWhatTheNaiveLoopCopies, ()) {
  const wire::ArraySpec spec = random_layout();
  RC_ASSERT(wire::validate(spec).ok());
  const Bytes array = random_bytes(wire::size_bytes_of(spec));
  Bytes expected(element_bytes(layout_of(spec)));
  for_each_element(spec, [&](std::size_t in_array, std::size_t packed, std::size_t bytes) {
    std::memcpy(expected.data() + packed, array.data() + in_array, bytes);
  });
  Bytes packed(element_bytes(layout_of(spec)));
  copy_out(layout_of(spec), array.data(), packed.data());
  RC_ASSERT(packed == expected);
}

RC_GTEST_PROP(StridedCopy, CopiesInWhatTheNaiveLoopCopiesAndLeavesTheGapsAlone, ()) {
  const wire::ArraySpec spec = random_layout();
  const Bytes packed = random_bytes(element_bytes(layout_of(spec)));
  Bytes array = random_bytes(wire::size_bytes_of(spec));
  Bytes expected = array;
  for_each_element(spec, [&](std::size_t in_array, std::size_t in_packed, std::size_t bytes) {
    std::memcpy(expected.data() + in_array, packed.data() + in_packed, bytes);
  });
  copy_in(layout_of(spec), packed.data(), array.data());
  RC_ASSERT(array == expected);
}

TEST(StridedCopy, AnEmptyArrayTouchesNothing) {
  wire::ArraySpec spec;
  spec.shape = {3, 0, 2};
  EXPECT_EQ(element_bytes(layout_of(spec)), 0U);
  copy_out(layout_of(spec), nullptr, nullptr);
  copy_in(layout_of(spec), nullptr, nullptr);
}

TEST(StridedCopy, AScalarIsOneElement) {
  wire::ArraySpec spec;
  const float value = 2.5F;
  float copy = 0;
  copy_out(layout_of(spec), reinterpret_cast<const std::byte*>(&value),
           reinterpret_cast<std::byte*>(&copy));
  EXPECT_EQ(copy, 2.5F);
}

}  // namespace
}  // namespace memlease::internal
