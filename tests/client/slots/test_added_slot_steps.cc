// Each step of the client's half of the slot protocol that is about slots which come and go, and
// what becomes of it without that step. tests/model/overflow.pml has the same rules, with all
// interleavings; slot_steps.h tells how they are played.
#include "tests/client/slots/slot_steps.h"

namespace memlease::testing {
namespace {

using internal::ReadAttempt;
using Read = internal::ReadOutcome;
using Write = internal::WriteOutcome;

// Two regular slots and one that was added: versions 2 and 4 stand in the former, 4 is current, and
// 3 in the latter, which nobody uses.
struct Grown {
  SlotWorld world{{2, 64}, 2};
  Grown() {
    world.publish();
    const ReadAttempt first = world.reader(0).acquire(0, 0);
    world.publish();
    world.reader(1).acquire(0, 0);
    add();
    world.publish();
    world.reader(0).release(first.slot);
    world.publish();
  }
  void add() { world.add_slot(); }
};

bool a_reader_comes_too_late_for_a_slot_that_has_gone() {
  Grown grown;
  bool gone = false;
  at("acquire.located", [&] { gone = grown.world.take_last_slot(); });
  const ReadAttempt read = grown.world.reader(0).acquire(3, 0);
  return gone && read.outcome == Read::kGone;
}

bool a_slot_that_is_held_does_not_go() {
  Grown grown;
  bool gone = true;
  at("acquire.held", [&] { gone = grown.world.take_last_slot(); });
  return grown.world.reader(0).acquire(3, 0).outcome == Read::kAcquired && !gone;
}

bool a_slot_that_closes_has_not_gone() {
  Grown grown;
  server::begin_closing(grown.world.board());
  const Read told = grown.world.reader(0).acquire(3, 0).outcome;
  server::end_closing(grown.world.board(), false);
  return told != Read::kGone && grown.world.reader(0).acquire(3, 0).outcome == Read::kAcquired;
}

// A writer that sees the slot closing passes it over, and sleeps where all others are held.
bool a_slot_that_stays_ends_the_writers_sleep() {
  Grown grown;
  server::begin_closing(grown.world.board());
  bool sleeps_on = false;
  grown.world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    server::end_closing(grown.world.board(), false);
    sleeps_on = would_sleep(words);
    return false;
  });
  return !sleeps_on;
}

// A slot that is there when the word has been looked at may be a new one, and the word the old
// one's.
bool a_new_slot_does_not_vouch_for_the_word_of_the_old_one() {
  Grown grown;
  at("acquire.located", [&] { grown.world.take_last_slot(); });
  at("acquire.compared", [&] {
    grown.world.writer_row().slot_words()[2].store(0);  // who asks for a slot clears its word
    grown.add();
  });
  return grown.world.reader(0).acquire(3, 0).outcome == Read::kGone;
}

bool a_writer_comes_too_late_for_a_slot_that_goes() {
  Grown grown;
  // The daemon has looked before the writer sets its mark. The slot of version 2 is held.
  at("write.allowed", [&] { server::begin_closing(grown.world.board()); });
  return grown.world.begin().outcome == Write::kNoFreeSlot;
}

// Three readers hold a version each, and the writer knows it: 1 and 2 in regular slots, 3 in the
// first of three that were added.
struct Kept {
  SlotWorld world{{2, 64}, 3};
  ReadAttempt third;
  Kept() {
    for (std::uint32_t i = 0; i < 3; ++i) {
      if (i == 2) world.add_slot();
      world.publish();
      third = world.reader(i).acquire(0, 0);
    }
    world.begin();  // finds no slot, having looked at all; some writes later it looks anyway
    for (int i = 0; i < 2; ++i) world.add_slot();
    for (int i = 0; i < 20; ++i) world.publish();
  }
};

bool a_slot_let_go_since_the_last_look_is_found() {
  Kept kept;
  kept.world.reader(0).acquire(0, 0);
  kept.world.publish();
  kept.world.reader(1).acquire(0, 0);
  kept.world.reader(2).release(kept.third.slot);
  return kept.world.begin().slot == kept.third.slot;
}

bool the_first_of_the_added_slots_are_used() {
  Kept kept;
  kept.world.reader(2).release(kept.third.slot);
  for (int i = 0; i < 100; ++i) {
    if (kept.world.publish().slot == kept.third.slot) return true;
  }
  return false;
}

bool an_added_slot_has_no_version() {
  Grown grown;
  grown.world.take_last_slot();
  grown.world.reader(0).acquire(4, 0);
  SlotWaitOf wait;
  wait.on_grow = [&](std::uint32_t) {
    grown.add();
    return internal::SlotWait::Grown::kAdded;
  };
  Read told = Read::kNotYet;
  at("grow.answered", [&] { told = grown.world.reader(0).acquire(3, 0).outcome; });
  grown.world.writer().begin(wait);
  return told == Read::kGone;
}

bool a_new_writer_forgets_what_it_once_had_there() {
  Grown grown;
  grown.world.take_last_slot();
  grown.world.writer_row(1).slot_words()[2].store(3);
  grown.world.writer(1).adopt(grown.world.writer_row(0));
  grown.add();  // for the former writer, who asked before he lost ownership
  grown.world.give_right_to(1);
  return grown.world.reader(0).acquire(3, 0).outcome == Read::kGone;
}

const Step kAddedSlotSteps[] = {
    {"AReaderComesTooLateForASlotThatHasGone", "look whether the slot exists",
     a_reader_comes_too_late_for_a_slot_that_has_gone},
    {"ASlotThatIsHeldDoesNotGo", "announce the hold", a_slot_that_is_held_does_not_go},
    {"ASlotThatClosesHasNotGone", "look at a slot that closes", a_slot_that_closes_has_not_gone},
    {"ASlotThatStaysEndsTheWritersSleep", "count the change",
     a_slot_that_stays_ends_the_writers_sleep},
    {"ANewSlotDoesNotVouchForTheWordOfTheOldOne", "existence before the word",
     a_new_slot_does_not_vouch_for_the_word_of_the_old_one},
    {"AWriterComesTooLateForASlotThatGoes", "look whether the slot exists",
     a_writer_comes_too_late_for_a_slot_that_goes},
    {"ASlotLetGoSinceTheLastLookIsFound", "look again where none seems free",
     a_slot_let_go_since_the_last_look_is_found},
    {"TheFirstOfTheAddedSlotsAreUsed", "look again after some writes",
     the_first_of_the_added_slots_are_used},
    {"AnAddedSlotHasNoVersion", "clear what does not exist", an_added_slot_has_no_version},
    {"ANewWriterForgetsWhatItOnceHadThere", "clear what does not exist",
     a_new_writer_forgets_what_it_once_had_there},
};

using AddedSlotSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, AddedSlotSteps, ::testing::ValuesIn(kAddedSlotSteps), promise_of);

TEST_P(AddedSlotSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(AddedSlotSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
