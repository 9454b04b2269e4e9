// Departures that are told again until there is an answer.
#include <cstdint>
#include <vector>

#include "client/arrays/departure_numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

std::vector<Departure> some(std::size_t count) { return {count, {wire::ArrayId{7}, 1, 0}}; }

auto numbered(std::uint64_t number) { return Field(&Departure::number, number); }

TEST(DepartureNumbers, EachHasANumberOfItsOwnThatItKeeps) {
  DepartureNumbers numbers;
  const auto first = numbers.begin(some(2));
  EXPECT_THAT(first.departures, ElementsAre(numbered(1), numbered(2)));
  EXPECT_EQ(first.answered_below, 1U);
  EXPECT_THAT(numbers.begin(some(1)).departures, ElementsAre(numbered(3)));
  EXPECT_THAT(numbers.begin(first.departures).departures, ElementsAre(numbered(1), numbered(2)));
}

TEST(DepartureNumbers, TheOldestWithoutAnAnswerSaysWhatMayBeForgotten) {
  DepartureNumbers numbers;
  const auto first = numbers.begin(some(1));
  const auto second = numbers.begin(some(1));
  numbers.end(second.departures);
  EXPECT_EQ(numbers.begin(some(1)).answered_below, 1U) << "the first may come again";
  numbers.end(first.departures);
  EXPECT_EQ(numbers.begin(some(1)).answered_below, 3U);
}

TEST(DepartureNumbers, OneThatIsRefusedForEverIsGivenUp) {
  DepartureNumbers numbers;
  const auto refused = numbers.begin(some(1));
  for (std::uint64_t i = 2; i <= wire::kDeparturesInDoubt; ++i) {
    numbers.end(numbers.begin(some(1)).departures);
  }
  EXPECT_EQ(numbers.begin(refused.departures).answered_below, 1U);
  EXPECT_GT(numbers.begin(some(1)).answered_below, 1U);
  EXPECT_THAT(numbers.begin(refused.departures).departures, IsEmpty());
}

}  // namespace
}  // namespace memlease::internal
