// Indexer: ranks, strides, numbers of elements, and which indices do for an array.
#include <memlease/indexer.h>
#include <memlease/view.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memlease {
namespace {

using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

// What a kernel takes by copy.
static_assert(std::is_trivially_copyable_v<Indexer<float, 0>>);
static_assert(std::is_trivially_copyable_v<Indexer<std::complex<double>, 3>>);
static_assert(std::is_trivially_copyable_v<ContiguousIndexer<const float, 32, std::int32_t>>);
static_assert(sizeof(Indexer<float, 32>) < 4096, "a kernel's arguments");
static_assert(sizeof(ContiguousIndexer<float, 3, std::int32_t>) <
              sizeof(Indexer<float, 3, std::int32_t>));

template <typename Integer>
class Indexers : public ::testing::Test {};
using IndexTypes = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(Indexers, IndexTypes, );

TYPED_TEST(Indexers, AreInCOrder) {
  std::array<int, 24> cells{};
  std::iota(cells.begin(), cells.end(), 0);
  const Indexer<int, 3, TypeParam> strided(cells.data(), {{2, 3, 4}});
  const ContiguousIndexer<int, 3, TypeParam> contiguous(cells.data(), {{2, 3, 4}});
  TypeParam number = 0;
  for (TypeParam i = 0; i < 2; ++i) {
    for (std::uint8_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 0; k < 4; ++k, ++number) {
        const IndexTuple<TypeParam, 3> at{{i, j, static_cast<TypeParam>(k)}};
        for (const auto& each :
             {strided(i, j, k), contiguous(i, j, k), strided.at(i, j, k), strided[at],
              contiguous[at], strided.element(number), contiguous.element(number)}) {
          EXPECT_EQ(each, number);
        }
        EXPECT_EQ(strided.get_indices(number), at);
        EXPECT_EQ(contiguous.get_linear(at), number);
      }
    }
  }
  EXPECT_EQ(strided.size(), 24);
  EXPECT_EQ(contiguous.extent(1), 3);
  for (std::size_t dim = 0; dim < 3; ++dim) EXPECT_EQ(strided.stride(dim), contiguous.stride(dim));
}

TYPED_TEST(Indexers, GoBackwardsAndOverTheSameElement) {
  std::array<double, 6> cells = {0, 1, 2, 3, 4, 5};
  const Indexer<double, 2, TypeParam> turned(&cells[5], {{3, 2}}, {{-2, -1}});
  EXPECT_EQ(turned(0, 0), 5);
  EXPECT_EQ(turned(2, 1), 0);
  EXPECT_EQ(turned.element(3), 2);
  const Indexer<double, 2, TypeParam> same(&cells[3], {{100, 2}}, {{0, 1}});
  EXPECT_EQ(same(99, 1), 4);
}

TYPED_TEST(Indexers, OfNoDimensionAndOfNoElements) {
  float one = 3;
  const Indexer<float, 0, TypeParam> scalar(&one, {});
  EXPECT_EQ(scalar.size(), 1);
  EXPECT_EQ(scalar(), 3);
  EXPECT_EQ(scalar.at(), 3);
  EXPECT_EQ(scalar.element(0), 3);
  const Indexer<float, 2, TypeParam> none(nullptr, {{3, 0}});
  EXPECT_EQ(none.size(), 0);
  EXPECT_THROW(static_cast<void>(none.at(0, 0)), std::out_of_range);
}

template <std::size_t... kDims>
void has_32_dimensions(std::index_sequence<kDims...>) {
  // Two elements in the first, the middle and the last dimension, one in all others.
  std::array<std::int16_t, 8> cells = {0, 1, 2, 3, 4, 5, 6, 7};
  const Indexer<std::int16_t, 32> indexer(
      cells.data(), {{(kDims == 0 || kDims == 15 || kDims == 31 ? 2 : 1)...}});
  EXPECT_EQ(indexer.size(), 8);
  EXPECT_EQ(indexer((kDims == 0 || kDims == 31 ? 1 : 0)...), 5);
  EXPECT_EQ(indexer.get_linear(indexer.get_indices(6)), 6);
  EXPECT_EQ(indexer.get_indices(6)[15], 1);
}
TEST(Indexer, Has32DimensionsAtMost) { has_32_dimensions(std::make_index_sequence<32>()); }

TEST(Indexer, SaysWhichIndexWasOutside) {
  std::array<int, 6> cells{};
  const Indexer<int, 2> indexer(cells.data(), {{2, 3}});
  EXPECT_THAT(
      [&] { static_cast<void>(indexer.at(1, 3)); },
      Throws<std::out_of_range>(Property(
          &std::out_of_range::what, HasSubstr("index 3 of dimension 1 is outside of [0, 3)"))));
  EXPECT_THROW(static_cast<void>(indexer.at(-1, 0)), std::out_of_range);
}

TEST(MakeIndexer, TakesTheStridesOfASpan) {
  std::array<float, 12> cells{};
  std::iota(cells.begin(), cells.end(), 0.0F);
  const Span<float, 2> columns(cells.data(), {4, 3}, {4, 16});  // Fortran's order
  const auto indexer = make_indexer(columns);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(&indexer(i, j), &columns(i, j));
  }
  const Span<const float, 1> others(cells.data(), {6}, {8});
  EXPECT_EQ(make_indexer<std::int32_t>(others)(5), 10);
}

TEST(MakeIndexer, RefusesStridesThatAreNoNumberOfElements) {
  std::array<float, 12> cells{};
  const Span<float, 2> bytes(cells.data(), {2, 2}, {16, 6});
  EXPECT_THAT([&] { static_cast<void>(make_indexer(bytes)); },
              Throws<std::invalid_argument>(Property(
                  &std::invalid_argument::what,
                  HasSubstr("the stride of dimension 1 is 6 bytes, which is not a multiple of an "
                            "element's 4"))));
  const Span<float, 2> unused(cells.data(), {2, 1}, {16, 6});
  EXPECT_EQ(make_indexer(unused).size(), 2);
}

TEST(MakeIndexer, RefusesGapsInWhatIsContiguous) {
  std::array<float, 12> cells{};
  const Span<float, 1> gaps(cells.data(), {6}, {8});
  EXPECT_THROW(static_cast<void>(make_indexer<std::int64_t, Layout::Contiguous>(gaps)),
               std::invalid_argument);
}

constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max() / 2;

TEST(IndicesFit, UpToHalfOfWhatTheyCanCount) {
  const auto fit = [](std::int64_t extent, std::int64_t stride) {
    return indices_fit<std::int32_t>(Span<std::int8_t, 1>(nullptr, {extent}, {stride}));
  };
  EXPECT_TRUE(fit(kMost32, 1));
  EXPECT_FALSE(fit(kMost32 + 1, 1));
  EXPECT_FALSE(fit(kMost32 + 1, 0)) << "numbers of elements, too";
  EXPECT_TRUE(fit(2, kMost32));
  EXPECT_FALSE(fit(2, kMost32 + 1));
  EXPECT_FALSE(fit(2, -kMost32 - 1));
  EXPECT_TRUE(fit(1, std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(fit(std::numeric_limits<std::int64_t>::max(), 1));
}

TEST(IndicesFit, OverAllDimensionsTogether) {
  using Bytes = Span<std::int8_t, 3>;
  EXPECT_FALSE(indices_fit<std::int32_t>(Bytes(nullptr, {2048, 1024, 512}, {1 << 19, 512, 1})));
  EXPECT_TRUE(indices_fit<std::int64_t>(Bytes(nullptr, {2048, 1024, 512}, {1 << 19, 512, 1})));
  EXPECT_TRUE(indices_fit<std::int32_t>(Bytes(nullptr, {2047, 1024, 512}, {1 << 19, 512, 1})));
  EXPECT_TRUE(indices_fit<std::int32_t>(Bytes(nullptr, {1 << 30, 1 << 30, 0}, {0, 0, 1})));
  EXPECT_THROW(static_cast<void>(make_indexer<std::int32_t>(
                   Bytes(nullptr, {2048, 1024, 512}, {1 << 19, 512, 1}))),
               std::invalid_argument);
}

// No memory is touched.
TEST(VisitIndexer, CountsBeyondWhat32BitsCan) {
  constexpr std::int64_t kRows = (std::int64_t{1} << 28) + 1;
  const std::vector<std::int64_t> bits = [] {
    std::vector<std::int64_t> found;
    const auto size_of_index = [&](auto indexer) {
      found.push_back(static_cast<std::int64_t>(sizeof(typename decltype(indexer)::index_type)));
      found.push_back(static_cast<std::int64_t>(indexer.get_linear(indexer.get_indices(
          static_cast<typename decltype(indexer)::index_type>(indexer.size() - 1)))));
    };
    visit_indexer(Span<std::int8_t, 2>(nullptr, {kRows, 8}, {8, 1}), size_of_index);
    visit_indexer(Span<std::int8_t, 2>(nullptr, {kRows / 4, 8}, {8, 1}), size_of_index);
    return found;
  }();
  EXPECT_THAT(bits, ::testing::ElementsAre(8, kRows * 8 - 1, 4, (kRows / 4) * 8 - 1));
}

TEST(VisitIndexer, TakesContiguousOnesWhereThereAreNoGaps) {
  std::array<float, 12> cells{};
  const auto layout = [](auto indexer) { return indexer.layout(); };
  EXPECT_EQ(visit_indexer(View<float, 2>(cells.data(), {3, 4}).span(), layout), Layout::Contiguous);
  EXPECT_EQ(visit_indexer(Span<float, 1>(cells.data(), {6}, {8}), layout), Layout::Strided);
}

}  // namespace
}  // namespace memlease
