// Each step of the client's half of the slot protocol, and what becomes of it without that step.
//
// tests/model/ has the same rules, with all interleavings; slot_steps.h tells how they are played.
#include <vector>

#include "tests/client/slots/slot_steps.h"

namespace memlease::testing {
namespace {

using internal::leaves_out;
using internal::ReadAttempt;
using internal::WriteAttempt;
using Read = internal::ReadOutcome;
using Write = internal::WriteOutcome;

// ---- A reader's steps.

bool a_held_slot_is_not_written() { return Held().world.begin().outcome == Write::kNoFreeSlot; }

bool what_was_located_may_be_overwritten() {
  SlotWorld world(2, 1);
  world.publish();
  at("acquire.located", [&] {
    world.publish();
    world.publish();  // in the slot of version 1
  });
  return stands(world, world.reader(0).acquire(0, 0), 0);
}

bool the_right_may_move_meanwhile() {
  SlotWorld world(2, 1);
  world.publish();
  at("acquire.located", [&] {
    world.writer(1).adopt(world.writer_row(0));
    world.give_right_to(1);
    world.publish(1);
    world.publish(1);  // in the slot of version 1, of which the old row knows nothing
  });
  return stands(world, world.reader(0).acquire(0, 0), 1);
}

// The former writer has left, and uses its row for another array.
bool what_a_former_writers_row_lacks_may_be_there() {
  SlotWorld world(2, 1);
  world.publish();
  at("acquire.named", [&] {
    world.writer(1).adopt(world.writer_row(0));
    world.give_right_to(1);
    world.writer_row(0).slot_words()[0].store(0);
    world.writer_row(0).slot_words()[1].store(0);
  });
  return stands(world, world.reader(0).acquire(1, 0), 1);
}

// A board has room for another array once this one has gone, whose writer may be the same.
bool the_board_may_be_another_arrays_meanwhile() {
  SlotWorld world(2, 1);
  world.publish();
  at("acquire.held", [&] { world.board().array_id.store(to_int(SlotWorld::kArray) + 1); });
  return world.reader(0).acquire(0, 0).outcome == Read::kWithdrawn;
}

bool a_failed_try_lets_go_of_its_own_hold_only() {
  SlotWorld world(2, 1);
  world.publish();
  const ReadAttempt of_one_thread = world.reader(0).acquire(0, 0);
  at("acquire.located", [&] { world.give_right_to(0); });  // another thread's try: a new generation
  at("acquire.undo", [&] {
    wire::HalfWord& holds = world.reader_row(0).holds()[of_one_thread.slot];
    if (leaves_out("undo one hold")) holds.store(1);
  });
  world.reader(0).release(world.reader(0).acquire(0, 0).slot);
  world.publish();
  return world.begin().outcome == Write::kNoFreeSlot;
}

// The model has a bit for the others and a private count behind it; here one word is both.
bool a_slot_is_held_until_its_last_lease_ends() {
  SlotWorld world(2, 1);
  world.publish();
  const ReadAttempt of_one_thread = world.reader(0).acquire(0, 0);
  const ReadAttempt of_another = world.reader(0).acquire(0, 0);
  world.publish();
  at("release.cleared", [&] {
    if (leaves_out("count the holds")) {
      world.reader_row(0).holds()[of_one_thread.slot].store(0);
    }
  });
  world.reader(0).release(of_another.slot);
  return world.begin().outcome == Write::kNoFreeSlot;
}

bool a_mark_that_is_taken_back_costs_no_version() {
  Held held;
  Read told = Read::kNotYet;
  at("write.marked", [&] { told = held.world.reader(1).acquire(1, 0).outcome; });
  held.world.begin();
  return told != Read::kGone;
}

bool a_number_under_way_is_not_gone() {
  SlotWorld world(2, 1);
  const WriteAttempt attempt = world.begin();
  return world.reader(0).acquire(attempt.version, 0).outcome != Read::kGone;
}

// ---- A writer's steps.

bool the_daemon_sees_a_write_that_it_did_not_stop() {
  SlotWorld world(2, 1);
  bool seen = false;
  at("write.allowed", [&] {
    server::set_moving(world.board());
    seen = server::is_writing(world.writer_row());
  });
  world.begin();
  return seen;
}

bool no_write_begins_while_the_right_moves() {
  SlotWorld world(2, 1);
  at("write.flagged", [&] { server::set_moving(world.board()); });
  return world.begin().outcome == Write::kNotMine;
}

// A number for a version that is written on a replica: the same two steps.
bool the_daemon_sees_a_number_that_it_did_not_stop() {
  SlotWorld world(2, 1);
  bool seen = false;
  at("device.number_taken", [&] { seen = server::is_writing(world.writer_row()); });
  EXPECT_EQ(world.writer().claim_number(), Write::kReady);
  world.writer().use_number(1, false);
  return seen;
}

bool no_number_is_taken_while_the_right_moves() {
  SlotWorld world(2, 1);
  at("device.number_flagged", [&] { server::set_moving(world.board()); });
  return world.writer().claim_number() == Write::kNotMine;
}

bool no_reader_comes_in_after_the_scan() {
  SlotWorld world(2, 1);
  world.publish();
  world.publish();
  ReadAttempt late;
  at("write.chosen", [&] { late = world.reader(0).acquire(1, 0); });
  world.begin();  // in the slot of version 1
  return late.outcome != Read::kAcquired;
}

bool a_mark_taken_back_restores_the_version() {
  Held held;
  held.world.begin();
  return held.world.reader(1).acquire(1, 0).outcome == Read::kAcquired;
}

bool the_mark_of_an_only_slot_is_taken_back() {
  SlotWorld world(1, 2);
  world.publish();
  world.reader(0).acquire(0, 0);
  world.begin();
  return world.reader(1).acquire(0, 0).outcome == Read::kAcquired;
}

bool a_slot_that_is_not_prepared_keeps_its_version() {
  SlotWorld world(2, 1);
  world.publish();
  world.publish();
  SlotWaitOf wait;
  wait.on_prepare = [](std::uint32_t) { return false; };
  EXPECT_EQ(world.writer().begin(wait).outcome, Write::kNoFreeSlot);
  return world.reader(0).acquire(1, 0).outcome == Read::kAcquired;
}

bool a_number_is_used_once() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt dropped = world.begin();
  world.writer().drop(dropped.slot);
  return world.begin().version > dropped.version;
}

bool a_row_that_cannot_be_seen_holds_everything() {
  Held held;
  held.world.rows_lost = true;
  return held.world.begin().outcome == Write::kNoFreeSlot;
}

bool a_chunk_that_cannot_be_seen_holds_everything() {
  constexpr std::uint32_t kInChunk = wire::SubscriberChunk::kEntries;
  SlotWorld world(2, kInChunk + 1);
  world.publish();
  world.reader(kInChunk).acquire(0, 0);
  world.publish();
  world.chunks_lost = true;
  return world.begin().outcome == Write::kNoFreeSlot;
}

bool the_next_writer_has_the_current_version() {
  SlotWorld world(2, 1);
  world.publish();
  world.writer(1).adopt(world.writer_row(0));
  world.give_right_to(1);
  return world.reader(0).acquire(0, 0).outcome == Read::kAcquired;
}

bool a_row_is_adopted_before_it_counts() {
  SlotWorld world(2, 1);
  world.publish();
  const bool counts_first = leaves_out("adopt the row before it counts");
  if (counts_first) world.give_right_to(1);
  Read told = Read::kNotYet;
  at("adopt.slot", [&] { told = world.reader(0).acquire(1, 0).outcome; });
  world.writer(1).adopt(world.writer_row(0));
  world.give_right_to(1);
  return told == Read::kAcquired;
}

bool the_next_writer_goes_on_with_the_numbers() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt dropped = world.begin();
  world.writer().drop(dropped.slot);
  world.writer(1).adopt(world.writer_row(0));
  world.give_right_to(1);
  return world.begin(1).version > dropped.version;
}

// The highest number of the row that is adopted is its owner's word; what is poisoned is the
// daemon's.
bool numbers_go_on_above_what_is_poisoned() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt torn = world.begin();
  world.die(0);
  world.writer_row(SlotWorld::kTakeover).highest_used.store(0);
  world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
  world.give_right_to(1);
  return world.begin(1).version > torn.version;
}

// Of an array on several devices: who copies a version gives it the number that it has elsewhere.
bool a_lost_number_does_not_come_back_by_a_copy() {
  constexpr std::uint64_t kElsewhere = 5;
  SlotWorld world(2, 1);
  SlotWaitOf none;
  world.publish();
  world.writer(0).begin(none, nullptr, {.copied = kElsewhere});
  world.die(0);
  world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
  world.give_right_to(1);
  return world.writer(1).begin(none, nullptr, {.copied = kElsewhere}).outcome == Write::kNumberUsed;
}

bool bytes_that_a_death_may_have_torn_have_no_version() {
  SlotWorld world(2, 1);
  world.publish();
  world.publish();
  const WriteAttempt torn = world.begin();
  world.die(0);
  return world.writer_row(SlotWorld::kTakeover).slot_words()[torn.slot].load() == 0;
}

bool what_is_published_is_never_gone_before() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt attempt = world.begin();
  Read told = Read::kNotYet;
  at("publish.begin", [&] {
    if (!leaves_out("slot word before publication")) return;
    world.writer_row().publication.store(wire::pack({attempt.version, attempt.slot}));
    told = world.reader(0).acquire(attempt.version, 0).outcome;
  });
  at("publish.slot", [&] { told = world.reader(0).acquire(attempt.version, 0).outcome; });
  world.writer().publish(attempt.slot, attempt.version);
  return told == Read::kNotYet;
}

bool a_dropped_slot_has_no_version() {
  SlotWorld world(2, 1);
  world.publish();
  world.publish();
  const WriteAttempt over_one = world.begin();
  at("drop.slot", [&] {
    wire::Word& word = world.writer_row().slot_words()[over_one.slot];
    if (leaves_out("clear the dropped slot")) word.store(1);
  });
  world.writer().drop(over_one.slot);
  return world.reader(0).acquire(1, 0).outcome == Read::kGone;
}

bool the_list_of_subscribers_is_read_after_the_mark() {
  SlotWorld world(2, 2);
  world.publish();
  world.publish();
  world.unsubscribe(1);
  at("write.allowed", [&] {
    world.subscribe(1);
    world.reader(1).acquire(1, 0);  // the version that the writer would overwrite
  });
  at("write.marked", [&] {
    // As if the list had been read when the last write began.
    if (leaves_out("read the list again")) world.unsubscribe(1);
  });
  return world.begin().outcome == Write::kNoFreeSlot;
}

const Step kSlotSteps[] = {
    {"AHeldSlotIsNotWritten", "announce the hold", a_held_slot_is_not_written},
    {"WhatWasLocatedMayBeOverwritten", "check the slot word", what_was_located_may_be_overwritten},
    {"TheRightMayMoveMeanwhile", "check the writer word", the_right_may_move_meanwhile},
    {"WhatAFormerWritersRowLacksMayBeThere", "look whose row it was",
     what_a_former_writers_row_lacks_may_be_there},
    {"TheBoardMayBeAnotherArraysMeanwhile", "look whose board it is",
     the_board_may_be_another_arrays_meanwhile},
    {"AFailedTryLetsGoOfItsOwnHoldOnly", "undo one hold",
     a_failed_try_lets_go_of_its_own_hold_only},
    {"ASlotIsHeldUntilItsLastLeaseEnds", "count the holds",
     a_slot_is_held_until_its_last_lease_ends},
    {"AMarkThatIsTakenBackCostsNoVersion", "wait for a mark",
     a_mark_that_is_taken_back_costs_no_version},
    {"ANumberUnderWayIsNotGone", "look for a write under way", a_number_under_way_is_not_gone},
    {"TheDaemonSeesAWriteThatItDidNotStop", "flag the write",
     the_daemon_sees_a_write_that_it_did_not_stop},
    {"NoWriteBeginsWhileTheRightMoves", "check the writer word",
     no_write_begins_while_the_right_moves},
    {"TheDaemonSeesANumberThatItDidNotStop", "flag the write",
     the_daemon_sees_a_number_that_it_did_not_stop},
    {"NoNumberIsTakenWhileTheRightMoves", "check the writer word",
     no_number_is_taken_while_the_right_moves},
    {"NoReaderComesInAfterTheScan", "mark the slot", no_reader_comes_in_after_the_scan},
    {"TheWriterLooksAtTheHolds", "look at the holds", a_held_slot_is_not_written},
    {"AMarkTakenBackRestoresTheVersion", "take the mark back",
     a_mark_taken_back_restores_the_version},
    {"TheMarkOfAnOnlySlotIsTakenBack", "take the mark back",
     the_mark_of_an_only_slot_is_taken_back},
    {"ASlotThatIsNotPreparedKeepsItsVersion", "take the mark back",
     a_slot_that_is_not_prepared_keeps_its_version},
    {"ANumberIsUsedOnce", "use up the number", a_number_is_used_once},
    {"ARowThatCannotBeSeenHoldsEverything", "count a row that cannot be seen",
     a_row_that_cannot_be_seen_holds_everything},
    {"AChunkThatCannotBeSeenHoldsEverything", "count a chunk that cannot be seen",
     a_chunk_that_cannot_be_seen_holds_everything},
    {"TheNextWriterHasTheCurrentVersion", "adopt the publication",
     the_next_writer_has_the_current_version},
    {"ARowIsAdoptedBeforeItCounts", "adopt the row before it counts",
     a_row_is_adopted_before_it_counts},
    {"TheNextWriterGoesOnWithTheNumbers", "adopt the highest number",
     the_next_writer_goes_on_with_the_numbers},
    {"NumbersGoOnAboveWhatIsPoisoned", "go on above what is poisoned",
     numbers_go_on_above_what_is_poisoned},
    {"ALostNumberDoesNotComeBackByACopy", "look at what is poisoned",
     a_lost_number_does_not_come_back_by_a_copy},
    {"BytesThatADeathMayHaveTornHaveNoVersion", "hand the slot out",
     bytes_that_a_death_may_have_torn_have_no_version},
    {"WhatIsPublishedIsNeverGoneBefore", "slot word before publication",
     what_is_published_is_never_gone_before},
    {"ADroppedSlotHasNoVersion", "clear the dropped slot", a_dropped_slot_has_no_version},
    {"TheListOfSubscribersIsReadAfterTheMark", "read the list again",
     the_list_of_subscribers_is_read_after_the_mark},
};

using SlotSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, SlotSteps, ::testing::ValuesIn(kSlotSteps), promise_of);

TEST_P(SlotSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(SlotSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
