// Span and View.
#include <memlease/span.h>
#include <memlease/view.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

namespace memlease {
namespace {

static_assert(std::is_convertible_v<Span<float, 2>, Span<const float, 2>>);
static_assert(!std::is_convertible_v<Span<const float, 2>, Span<float, 2>>);
static_assert(!std::is_convertible_v<Span<float, 2>, Span<double, 2>>);
static_assert(std::is_convertible_v<View<float, 2>, View<const float, 2>>);
static_assert(!std::is_convertible_v<View<const float, 2>, View<float, 2>>);
static_assert(std::is_trivially_copyable_v<View<float, 3>>);

class Views : public ::testing::Test {
 protected:
  Views() { std::iota(cells.begin(), cells.end(), 0); }

  std::array<int, 24> cells{};
  View<int, 3> view{cells.data(), {2, 3, 4}};
};

TEST_F(Views, AreInCOrder) {
  for (int i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 4; ++k) {
        EXPECT_EQ(view(i, j, k), cells.at(static_cast<std::size_t>((i * 3 + j) * 4) + k));
        EXPECT_EQ(&view.at(i, j, k), &view(i, j, k));
        EXPECT_EQ(&view.row(i).row(j)(k), &view(i, j, k));
        EXPECT_EQ(&view.span()(i, j, k), &view(i, j, k));
      }
    }
  }
  EXPECT_EQ(view.size(), 24);
  EXPECT_TRUE(view.span().is_contiguous());
}

TEST_F(Views, IterateOverAllElements) {
  int sum = 0;
  for (const int cell : view) sum += cell;
  EXPECT_EQ(sum, 276);
  for (int& cell : view.row(1)) cell = 0;
  EXPECT_EQ(std::accumulate(view.begin(), view.end(), 0), 66);
}

TEST_F(Views, AsSpansIterateInCOrderWhateverTheirStrides) {
  const std::int64_t of_int = sizeof(int);
  const Span<int, 2> columns{cells.data(), {2, 3}, {of_int, 4 * of_int}};
  EXPECT_EQ(std::vector<int>(columns.begin(), columns.end()), (std::vector<int>{0, 4, 8, 1, 5, 9}));
  for (int& cell : columns) cell = -1;
  EXPECT_EQ(std::accumulate(view.begin(), view.end(), 0), 276 - 27 - 6);
  const Span<const int, 2> none{cells.data(), {2, 0}, {of_int, of_int}};
  EXPECT_EQ(none.begin(), none.end());
  const Span<int, 0> one{cells.data(), {}, {}};
  EXPECT_EQ(std::distance(one.begin(), one.end()), 1);
}

TEST_F(Views, CheckInAt) {
  EXPECT_THROW(view.at(2, 0, 0), std::out_of_range);
  EXPECT_THROW(view.at(0, 0, -1), std::out_of_range);
  EXPECT_THROW(view.span().at(0, 3, 0), std::out_of_range);
}

TEST_F(Views, MayBeOfOneElementOrNone) {
  const View<const int, 0> one(&cells[5], {});
  EXPECT_EQ(one(), 5);
  EXPECT_EQ(one.at(), 5);
  EXPECT_EQ(one.size(), 1);
  const View<int, 2> none(nullptr, {3, 0});
  EXPECT_EQ(none.begin(), none.end());
  EXPECT_TRUE(none.span().is_contiguous());
}

TEST_F(Views, OfConstElementsAreMadeOfOthers) {
  const View<const int, 3> reads = view;
  const Span<const int, 3> strided = view.span();
  view(1, 2, 3) = -1;
  EXPECT_EQ(reads(1, 2, 3), -1);
  EXPECT_EQ(strided(1, 2, 3), -1);
}

}  // namespace
}  // namespace memlease
