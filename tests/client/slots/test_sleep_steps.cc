// Each step by which nobody of the client's half of the slot protocol sleeps on what has come, and
// what becomes of it without that step. slot_steps.h tells how they are played.
#include <vector>

#include "tests/client/slots/slot_steps.h"

namespace memlease::testing {
namespace {

using internal::leaves_out;
using internal::WriteAttempt;
using Read = internal::ReadOutcome;

bool a_release_wakes_the_writer() {
  Held held;
  bool sleeps_on = false;
  held.world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    held.world.reader(0).release(held.first.slot);
    sleeps_on = would_sleep(words);
    return false;
  });
  return !sleeps_on;
}

bool a_failed_try_wakes_the_writer() {
  SlotWorld world(1, 2);
  world.publish();
  world.reader(0).acquire(0, 0);
  bool sleeps_on = false;
  world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    world.reader(1).acquire(0, 0);  // the writer may have seen its hold
    sleeps_on = would_sleep(words);
    return false;
  });
  return !sleeps_on;
}

// The reader looks whether a slot is wanted when its hold has gone; the writer looks at the holds
// when it has said that it wants one.
bool a_hold_goes_before_the_look_at_who_wants_it() {
  Held held;
  wire::HalfWord& hold = held.world.reader_row(0).holds()[held.first.slot];
  const bool look_first = leaves_out("clear the hold before the look");
  at("release.cleared", [&] {
    if (look_first) hold.fetch_add(1);
  });
  held.world.reader(0).release(held.first.slot);  // nobody wants it yet
  bool sleeps_on = false;
  held.world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    if (look_first) hold.fetch_sub(1);
    sleeps_on = would_sleep(words);
    return false;
  });
  return !sleeps_on;
}

bool a_slot_let_go_before_it_was_wanted_is_found() {
  Held held;
  at("write.held", [&] { held.world.reader(0).release(held.first.slot); });  // wakes nobody
  bool slept = false;
  held.world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    slept = would_sleep(words);
    return false;
  });
  return !slept;
}

bool the_end_of_a_write_is_seen_by_who_sleeps(void (*end)(SlotWorld&)) {
  SlotWorld world(2, 1);
  const internal::SlotReader::Counts counts = world.reader(0).counts();
  end(world);
  return !would_sleep(counts.span());
}

bool a_publish_wakes() {
  return the_end_of_a_write_is_seen_by_who_sleeps([](SlotWorld& world) { world.publish(); });
}

bool a_mark_that_is_taken_back_wakes() {
  SlotWorld world(1, 2);
  world.publish();
  world.reader(0).acquire(0, 0);
  const internal::SlotReader::Counts counts = world.reader(1).counts();
  world.begin();  // until its deadline
  return !would_sleep(counts.span());
}

bool a_drop_wakes() {
  return the_end_of_a_write_is_seen_by_who_sleeps(
      [](SlotWorld& world) { world.writer().drop(world.begin().slot); });
}

bool who_has_not_seen_a_version_has_old_counts() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt attempt = world.begin();
  const bool count_first = leaves_out("publication before count");
  internal::SlotReader::Counts counts;
  Read told = Read::kAcquired;
  at("publish.slot", [&] {
    if (count_first) world.writer_row().publish_count.fetch_add(1);
    counts = world.reader(0).counts();
    told = world.reader(0).acquire(0, 1).outcome;
  });
  world.writer().publish(attempt.slot, attempt.version);
  if (count_first) world.writer_row().publish_count.fetch_sub(1);
  return told == Read::kNotYet && !would_sleep(counts.span());
}

// Who sleeps on the row of a former writer sleeps on the board's count too, and that must be older.
bool who_has_the_former_writers_count_has_the_boards_too() {
  SlotWorld world(2, 1);
  world.publish();
  world.writer(1).adopt(world.writer_row(0));
  at("counts.writer", [&] { world.give_right_to(1); });
  const internal::SlotReader::Counts counts = world.reader(0).counts();
  const Read told = world.reader(0).acquire(0, 1).outcome;
  world.publish(1);
  return told == Read::kNotYet && !would_sleep(counts.span());
}

// Who asks for ownership takes the counts, is then told that the flag is set, and sleeps.
bool who_is_told_of_a_write_has_old_counts() {
  SlotWorld world(2, 1);
  const WriteAttempt attempt = world.begin();
  wire::HalfWord& count = world.writer_row().publish_count;
  const std::uint32_t while_flagged = count.load();
  at("publish.publication", [&] {
    if (leaves_out("flag before count")) count.fetch_add(1);
  });
  bool old = false;
  at("end_write.unflagged",
     [&] { old = !server::is_writing(world.writer_row()) && count.load() == while_flagged; });
  world.writer().publish(attempt.slot, attempt.version);
  return old && count.load() != while_flagged;
}

bool the_end_of_a_write_wakes_who_asks() {
  SlotWorld world(2, 1);
  const WriteAttempt attempt = world.begin();
  server::set_moving(world.board());
  bool woken = false;
  at("end_write.waking", [&] { woken = true; });
  world.writer().publish(attempt.slot, attempt.version);
  return woken;
}

bool a_publish_wakes_who_has_gone_to_sleep() {
  SlotWorld world(2, 1);
  const WriteAttempt attempt = world.begin();
  if (!leaves_out("announce the sleep")) world.reader(0).announce_sleep();
  bool woken = false;
  at("end_write.waking", [&] { woken = true; });
  world.writer().publish(attempt.slot, attempt.version);
  return woken;
}

bool a_thread_that_wakes_leaves_the_others_announced() {
  SlotWorld world(2, 1);
  const WriteAttempt attempt = world.begin();
  world.reader(0).announce_sleep();
  world.reader(0).announce_sleep();  // another thread
  world.reader(0).end_sleep();       // its time was over
  if (leaves_out("count the sleepers")) world.reader_row(0).sleeping.store(0);
  bool woken = false;
  at("end_write.waking", [&] { woken = true; });
  world.writer().publish(attempt.slot, attempt.version);
  return woken;
}

const Step kSleepSteps[] = {
    {"AReleaseWakesTheWriter", "wake the writer", a_release_wakes_the_writer},
    {"AFailedTryWakesTheWriter", "wake the writer", a_failed_try_wakes_the_writer},
    {"AHoldGoesBeforeTheLookAtWhoWantsIt", "clear the hold before the look",
     a_hold_goes_before_the_look_at_who_wants_it},
    {"AWantedSlotIsAnnounced", "want a slot", a_release_wakes_the_writer},
    {"ASlotLetGoBeforeItWasWantedIsFound", "look again before sleeping",
     a_slot_let_go_before_it_was_wanted_is_found},
    {"APublishWakes", "count the end of a write", a_publish_wakes},
    {"ADropWakes", "count the end of a write", a_drop_wakes},
    {"AMarkThatIsTakenBackWakes", "count the end of a write", a_mark_that_is_taken_back_wakes},
    {"WhoHasNotSeenAVersionHasOldCounts", "publication before count",
     who_has_not_seen_a_version_has_old_counts},
    {"WhoHasTheFormerWritersCountHasTheBoardsToo", "event count first",
     who_has_the_former_writers_count_has_the_boards_too},
    {"WhoIsToldOfAWriteHasOldCounts", "flag before count", who_is_told_of_a_write_has_old_counts},
    {"TheEndOfAWriteWakesWhoAsks", "wake who asks", the_end_of_a_write_wakes_who_asks},
    {"APublishWakesWhoHasGoneToSleep", "announce the sleep", a_publish_wakes_who_has_gone_to_sleep},
    {"AThreadThatWakesLeavesTheOthersAnnounced", "count the sleepers",
     a_thread_that_wakes_leaves_the_others_announced},
};

using SleepSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, SleepSteps, ::testing::ValuesIn(kSleepSteps), promise_of);

TEST_P(SleepSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(SleepSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
