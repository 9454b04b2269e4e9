// Each step by which the daemon adds slots and takes them away, and what becomes of it without that
// step. tests/model/overflow.pml has the same rules, with all interleavings; slot_steps.h tells how
// they are played.
#include "server/core/slot_board.h"
#include "tests/client/slots/membership.h"
#include "tests/client/slots/slot_steps.h"

namespace memlease::testing {
namespace {

using internal::leaves_out;
using Read = internal::ReadOutcome;

bool a_slot_that_is_held_is_not_taken_away() {
  Membership membership(4);
  membership.grow();
  EXPECT_EQ(membership.reader->acquire(3, 0).outcome, Read::kAcquired);
  membership.take_idle_slots();
  return membership.slots() == 3;
}

bool a_slot_closes_before_the_daemon_looks_at_the_holds() {
  Membership membership(4);
  membership.grow();
  membership.world.broker.take_idle_slots();
  Read told = Read::kNotYet;
  at("take_idle.looked", [&] {
    wire::HalfWord& word = membership.array.board->slots;
    const bool late = leaves_out("close before the look");
    if (late) word.fetch_and(~wire::kSlotsClosing);
    told = membership.reader->acquire(3, 0).outcome;
    if (late) word.fetch_or(wire::kSlotsClosing);
  });
  membership.world.broker.take_idle_slots();
  EXPECT_EQ(membership.slots(), 2U);
  return told != Read::kAcquired;
}

bool a_version_that_is_not_current_yet_is_in_use() {
  Membership membership(4);
  membership.hold_the_other_slot();
  EXPECT_TRUE(membership.add_slot().ok());
  at("publish.slot", [&] { membership.take_idle_slots(); });
  membership.publish();
  return membership.slots() == 3;
}

bool who_sees_a_slot_sees_its_place() {
  SlotWorld world({2, 64}, 1);
  const wire::SlotLayout layout{2, 64};
  bool seen = true;
  const auto look = [&] {
    const bool there = wire::slots_of(world.board().slots.load(), layout) == 3;
    seen = seen && (!there || world.board().places(layout)[0].load() != 0);
  };
  at("add_slot.begin", [&] {
    if (leaves_out("place before the count")) world.board().slots.fetch_add(1);
    look();
  });
  at("add_slot.placed", look);
  server::add_slot(world.board(), layout, {wire::FileId{5}, 64});
  look();
  return seen;
}

bool no_slot_is_added_in_which_its_writer_has_a_version() {
  Membership membership(4);
  membership.hold_the_other_slot();
  membership.writer_row.slot_words()[2].store(7);  // from a slot that was once there
  return !membership.add_slot().ok();
}

const Step kGrowthSteps[] = {
    {"ASlotThatIsHeldIsNotTakenAway", "see who holds an added slot",
     a_slot_that_is_held_is_not_taken_away},
    {"ASlotClosesBeforeTheDaemonLooksAtTheHolds", "close before the look",
     a_slot_closes_before_the_daemon_looks_at_the_holds},
    {"AVersionThatIsNotCurrentYetIsInUse", "see a publish under way",
     a_version_that_is_not_current_yet_is_in_use},
    {"WhoSeesASlotSeesItsPlace", "place before the count", who_sees_a_slot_sees_its_place},
    {"NoSlotIsAddedInWhichItsWriterHasAVersion", "look at the word of a new slot",
     no_slot_is_added_in_which_its_writer_has_a_version},
};

using GrowthSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, GrowthSteps, ::testing::ValuesIn(kGrowthSteps), promise_of);

TEST_P(GrowthSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(GrowthSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
