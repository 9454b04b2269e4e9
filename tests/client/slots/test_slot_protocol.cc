// The slot protocol under load: no torn read, no lost wake-up, no step backwards.
#include "gtest/gtest.h"
#include "tests/client/slots/slot_race.h"

namespace memlease::testing {
namespace {

class SlotProtocol : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Slots, SlotProtocol, ::testing::Values(1, 2, 3, 64),
                         ::testing::PrintToStringParamName());

void expect_flawless(const RaceResult& result, const RaceOptions& options) {
  EXPECT_GE(result.published, options.versions);
  EXPECT_GE(result.reads, options.reads);
  EXPECT_EQ(result.torn, 0U);
  EXPECT_EQ(result.backwards, 0U);
  EXPECT_EQ(result.lost_wakeups, 0U);
}

TEST_P(SlotProtocol, ReadersWithRowsOfTheirOwnSeeWholeVersionsOnly) {
  SlotWorld world(GetParam(), 2);
  const RaceOptions options{.rows = {0, 1}};
  expect_flawless(race(world, options), options);
}

TEST_P(SlotProtocol, ReadersThatShareARowSeeWholeVersionsOnly) {
  SlotWorld world(GetParam(), 2);
  const RaceOptions options{.versions = 30'000, .reads = 60'000, .rows = {0, 0, 0, 1}};
  expect_flawless(race(world, options), options);
  for (std::uint32_t s = 0; s < world.slots(); ++s) {
    EXPECT_EQ(world.reader(0).holds(s), 0U) << "every hold is given back";
  }
}

}  // namespace
}  // namespace memlease::testing
