// The host's fill, copy and add_index_tuple, beside loops that anybody would write. Compiled with
// OpenMP, with its vector instructions alone, and without.
#include <memlease/kernels.h>

#include <array>
#include <complex>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace memlease {
namespace {

// Elements and a span of them, of any strides: in C order, in Fortran's, with gaps, backwards.
template <typename T, std::size_t N>
struct Cells {
  enum Kind { kC, kFortran, kGaps, kBackwards };
  Cells(const std::array<std::int64_t, N>& shape, Kind kind) {
    std::array<std::int64_t, N> strides{};
    std::int64_t step = kind == kGaps ? 3 : 1;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < N; ++i) {
      const std::size_t dim = kind == kFortran ? i : N - 1 - i;
      strides[dim] = (kind == kBackwards ? -step : step) * std::int64_t{sizeof(T)};
      if (kind == kBackwards) first += step * (shape[dim] > 0 ? shape[dim] - 1 : 0);
      step *= shape[dim];
    }
    bytes.resize(static_cast<std::size_t>(step) + 1, T(99));
    span.emplace_back(bytes.data() + first, shape, strides);
  }
  const Span<T, N>& operator*() const { return span.front(); }

  std::vector<T> bytes;
  std::vector<Span<T, N>> span;
};

template <std::size_t N, typename Body>
void for_each_index(const std::array<std::int64_t, N>& shape, const Body& body) {
  std::array<std::int64_t, N> at{};
  for (const std::int64_t extent : shape) {
    if (extent == 0) return;
  }
  for (;;) {
    body(at);
    std::size_t dim = N;
    while (dim > 0 && ++at[dim - 1] == shape[dim - 1]) at[--dim] = 0;
    if (dim == 0) return;
  }
}

template <typename T, std::size_t N>
T& element(const Span<T, N>& span, const std::array<std::int64_t, N>& at) {
  return std::apply([&](auto... index) -> T& { return span.at(index...); }, at);
}

template <typename T, std::size_t N>
void check(const std::array<std::int64_t, N>& shape) {
  using Kind = typename Cells<T, N>::Kind;
  for (const Kind kind : {Kind::kC, Kind::kFortran, Kind::kGaps, Kind::kBackwards}) {
    const Cells<T, N> cells(shape, kind);
    fill(*cells, T(5));
    for_each_index<N>(shape, [&](const auto& at) { ASSERT_EQ(element(*cells, at), T(5)); });
    if (kind == Kind::kGaps && cells.bytes.size() > 1) {
      EXPECT_EQ(cells.bytes[1], T(99)) << "what is between the elements is left alone";
    }
    add_index_tuple(*cells);
    const auto expected = [](const auto& at) {
      std::int64_t sum = 0;
      for (const std::int64_t index : at) sum += index;
      return static_cast<T>(T(5) + static_cast<T>(sum));
    };
    for_each_index<N>(shape, [&](const auto& at) { ASSERT_EQ(element(*cells, at), expected(at)); });
    for (const auto to : {Cells<double, N>::kC, Cells<double, N>::kFortran}) {
      const Cells<double, N> doubles(shape, to);
      copy(Span<const T, N>(*cells), *doubles);
      for_each_index<N>(shape, [&](const auto& at) {
        ASSERT_EQ(element(*doubles, at), static_cast<double>(expected(at)));
      });
    }
  }
}

TEST(Kernels, DoWhatLoopsDoForAnyRankAndStrides) {
  check<float, 0>({});
  check<float, 1>({17});
  check<double, 2>({5, 7});
  check<std::int32_t, 3>({3, 4, 5});
  check<std::uint8_t, 4>({2, 3, 1, 4});
  check<std::int64_t, 6>({2, 1, 2, 3, 2, 2});
}

TEST(Kernels, DoNothingToAnEmptyArray) {
  check<float, 2>({0, 4});
  check<float, 3>({4, 0, 2});
  Span<float, 1> none(nullptr, {0}, {4});
  fill(none, 1.0F);
  copy(Span<const float, 1>(none), none);
  add_index_tuple(none);
}

TEST(Kernels, ShareLargeArraysAmongThreads) {
  check<float, 1>({100'003});
  check<float, 3>({70, 31, 97});
}

TEST(Kernels, ConvertAsTheLanguageDoes) {
  const std::array<double, 4> from = {1.9, -2.9, 300.5, 0.0};
  std::array<std::int32_t, 4> to{};
  copy(Span<const double, 1>(from.data(), {4}, {8}), Span<std::int32_t, 1>(to.data(), {4}, {4}));
  EXPECT_EQ(to, (std::array<std::int32_t, 4>{1, -2, 300, 0}));
  const std::array<float, 2> reals = {1.5F, -2.5F};
  std::array<std::complex<float>, 2> complex{};
  copy(Span<const float, 1>(reals.data(), {2}, {4}),
       Span<std::complex<float>, 1>(complex.data(), {2}, {8}));
  EXPECT_EQ(complex[1], std::complex<float>(-2.5F));
}

TEST(Kernels, CopiesOneElementToMany) {
  const float one = 3;
  std::vector<float> to(24);
  copy(Span<const float, 2>(&one, {4, 6}, {0, 0}), Span<float, 2>(to.data(), {4, 6}, {24, 4}));
  EXPECT_EQ(to, std::vector<float>(24, 3.0F));
}

TEST(Kernels, AddToOneElementAsOftenAsItIsThere) {
  float one = 0;
  add_index_tuple(Span<float, 2>(&one, {2, 3}, {0, 0}));
  EXPECT_EQ(one, 0 + 1 + 2 + 1 + 2 + 3);
}

TEST(Kernels, RefuseAnotherShape) {
  std::vector<float> elements(6);
  const Span<float, 2> rows(elements.data(), {2, 3}, {12, 4});
  const Span<float, 2> columns(elements.data(), {3, 2}, {8, 4});
  try {
    copy(Span<const float, 2>(rows), columns);
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "memlease: dimension 0 has 2 elements where they come from and 3 where they go");
  }
}

TEST(Kernels, RefuseStridesBetweenElements) {
  std::vector<float> elements(8);
  EXPECT_THROW(fill(Span<float, 1>(elements.data(), {3}, {6}), 1.0F), std::invalid_argument);
}

}  // namespace
}  // namespace memlease
