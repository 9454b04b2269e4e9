// Negative controls: with one rule of the slot protocol broken, the harness of test_slot_protocol
// must see torn reads. A harness that cannot fail proves nothing.
//
// In the build with ThreadSanitizer each of them is a data race, and must be reported as one.
#include "gtest/gtest.h"
#include "tests/client/slots/slot_race.h"

namespace memlease::testing {
namespace {

class SlotControl : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Slots, SlotControl, ::testing::Values(2, 3),
                         ::testing::PrintToStringParamName());

const RaceOptions kUntilTorn{
    .versions = 50'000'000, .rows = {0, 1}, .sleep = false, .stop_when_torn = true};

TEST_P(SlotControl, AWriterThatDoesNotLookAtTheHoldsIsCaught) {
  SlotWorld world(GetParam(), 2);
  world.subscribers_hidden = true;
  EXPECT_GT(race(world, kUntilTorn).torn, 0U);
}

TEST_P(SlotControl, AReaderThatIsNotOnTheBoardIsCaught) {
  SlotWorld world(GetParam(), 2);
  world.unsubscribe(1);
  EXPECT_GT(race(world, kUntilTorn).torn, 0U);
}

}  // namespace
}  // namespace memlease::testing
