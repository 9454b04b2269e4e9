// The rules of the slot protocol, one by one.
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/slots/slot_world.h"

namespace memlease::testing {
namespace {

using internal::ReadAttempt;
using internal::WriteAttempt;
using Read = internal::ReadOutcome;
using Write = internal::WriteOutcome;

Read read(SlotWorld& world, std::uint64_t version = 0, std::uint64_t newer_than = 0) {
  const ReadAttempt attempt = world.reader(0).acquire(version, newer_than);
  if (attempt.outcome == Read::kAcquired) world.reader(0).release(attempt.slot);
  return attempt.outcome;
}

TEST(SlotRules, NothingIsThereBeforeTheFirstVersion) {
  for (const std::uint32_t slots : {1U, 2U}) {
    SlotWorld world(slots, 1);
    EXPECT_EQ(read(world), Read::kNotYet);
    EXPECT_EQ(read(world, 1), Read::kNotYet);
    world.begin();
    EXPECT_EQ(read(world), Read::kNotYet);
  }
}

TEST(SlotRules, ANumberIsUsedOnceWhateverBecameOfTheWrite) {
  SlotWorld world(3, 1);
  EXPECT_EQ(world.publish().version, 1U);
  const WriteAttempt dropped = world.begin();
  EXPECT_EQ(dropped.version, 2U);
  world.writer().drop(dropped.slot);
  EXPECT_EQ(world.publish().version, 3U);
  // The next writer goes on from there, also when it takes over from a dead one.
  EXPECT_EQ(world.begin().version, 4U);
  world.die(0);
  world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
  world.give_right_to(1);
  EXPECT_EQ(world.publish(1).version, 5U);
}

TEST(SlotRules, AdoptionForgetsWhatStoodInTheRowBefore) {
  SlotWorld world(2, 1);
  world.publish(0);
  world.publish(0);
  world.writer(1).adopt(world.writer_row(0));
  world.give_right_to(1);
  for (int i = 0; i < 5; ++i) world.publish(1);
  world.writer(0).adopt(world.writer_row(1));  // its own row still says 2
  world.give_right_to(0);
  EXPECT_EQ(read(world, 2), Read::kGone);
  EXPECT_EQ(world.publish(0).version, 8U);
}

TEST(SlotRules, TheCurrentVersionIsNeverOverwrittenWhileThereAreOtherSlots) {
  SlotWorld world(2, 1);
  for (std::uint64_t version = 1; version < 10; ++version) {
    const WriteAttempt attempt = world.begin();
    EXPECT_EQ(read(world), version == 1 ? Read::kNotYet : Read::kAcquired);
    const wire::Publication current = world.writer().current();
    EXPECT_EQ(current.version, version - 1);
    EXPECT_TRUE(version == 1 || attempt.slot != current.slot);
    world.writer().publish(attempt.slot, attempt.version);
  }
}

TEST(SlotRules, AHeldSlotIsNotWritten) {
  SlotWorld world(2, 2);
  world.publish();
  const ReadAttempt held = world.reader(1).acquire(0, 0);
  world.publish();
  EXPECT_EQ(world.begin().outcome, Write::kNoFreeSlot);
  EXPECT_EQ(read(world, 1), Read::kAcquired) << "a mark that was taken back costs no version";
  world.reader(1).release(held.slot);
  EXPECT_EQ(world.begin().outcome, Write::kReady);
}

TEST(SlotRules, HoldsOfOneRowAreCounted) {
  SlotWorld world(2, 1);
  world.publish();
  const ReadAttempt first = world.reader(0).acquire(0, 0);
  world.reader(0).hold_again(first.slot);
  world.publish();
  world.reader(0).release(first.slot);
  EXPECT_TRUE(world.reader(0).holds_any());
  EXPECT_EQ(world.begin().outcome, Write::kNoFreeSlot);
  world.reader(0).release(first.slot);
  EXPECT_FALSE(world.reader(0).holds_any());
  EXPECT_EQ(world.begin().outcome, Write::kReady);
}

TEST(SlotRules, ARowThatCannotBeLookedAtHoldsEverything) {
  SlotWorld world(3, 1);
  world.publish();
  world.rows_lost = true;
  EXPECT_EQ(world.begin().outcome, Write::kNoFreeSlot);
  world.unsubscribe(0);
  EXPECT_EQ(world.begin().outcome, Write::kReady);
}

TEST(SlotRules, AReleaseWakesTheWriterThatWantsASlot) {
  SlotWorld world(2, 1);
  world.publish();
  const ReadAttempt held = world.reader(0).acquire(0, 0);
  world.publish();
  bool asked = false;
  const auto attempt = world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    asked = true;
    EXPECT_EQ(world.writer_row().wanted.load(), 1U);
    const auto& count = world.reader_row(0).release_count;
    EXPECT_THAT(words, ::testing::Contains(::testing::Field(&wire::FutexWait::word, &count)));
    const std::uint32_t before = count.load();
    world.reader(0).release(held.slot);
    EXPECT_EQ(count.load(), before + 1) << "or the writer would sleep on";
    return true;
  });
  EXPECT_TRUE(asked);
  EXPECT_EQ(attempt.outcome, Write::kReady);
  EXPECT_EQ(world.writer_row().wanted.load(), 0U);
}

// A row without holds may take one before the writer's next scan, which then fails because of it.
TEST(SlotRules, AWriterSleepsOnTheReleasesOfEverySubscriber) {
  SlotWorld world(2, 2);
  world.publish();
  world.reader(0).acquire(0, 0);
  world.publish();
  world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    for (const wire::HalfWord* word :
         {&world.board().event_count, &world.reader_row(0).release_count,
          &world.reader_row(1).release_count}) {
      EXPECT_THAT(words, ::testing::Contains(::testing::Field(&wire::FutexWait::word, word)));
    }
    return false;
  });
}

// Whoever holds a slot wakes the writer, however many others there are.
TEST(SlotRules, AWriterSleepsOnTheReleasesOfHoldersFirst) {
  constexpr std::uint32_t kMany = 300;
  SlotWorld world(2, kMany);
  world.publish();
  world.reader(kMany - 1).acquire(0, 0);
  world.publish();
  world.begin_sleeping(
      [&](const std::vector<wire::FutexWait>& words, std::chrono::nanoseconds longest) {
        EXPECT_EQ(words.size(), wire::kMaxFutexWaits);
        EXPECT_EQ(words[0].word, &world.board().event_count);
        EXPECT_EQ(words[1].word, &world.reader_row(kMany - 1).release_count);
        EXPECT_LE(longest, std::chrono::milliseconds(1)) << "the others cannot all wake it";
        return false;
      });
}

// The release would have to call the daemon to learn whether the writer waits.
TEST(SlotRules, AReleaseWakesAWriterWhoseRowIsNotMapped) {
  SlotWorld world(2, 1);
  world.publish();
  const ReadAttempt held = world.reader(0).acquire(0, 0);
  world.rows_unmapped = true;
  const std::uint32_t before = world.reader_row(0).release_count.load();
  world.reader(0).release(held.slot);
  EXPECT_FALSE(world.reader(0).holds_any());
  EXPECT_EQ(world.reader_row(0).release_count.load(), before + 1);
}

TEST(SlotRules, AFailedTryWakesTheWriterToo) {
  SlotWorld world(1, 1);
  world.publish();
  const ReadAttempt held = world.reader(0).acquire(0, 0);
  world.begin_sleeping([&](const auto&, auto) {
    const std::uint32_t before = world.reader_row(0).release_count.load();
    EXPECT_EQ(world.reader(0).acquire(0, 0).outcome, Read::kNotYet);
    EXPECT_GT(world.reader_row(0).release_count.load(), before)
        << "the writer may have seen the hold of this try";
    return false;
  });
  world.reader(0).release(held.slot);
}

TEST(SlotRules, ADroppedSlotHasNoVersion) {
  SlotWorld world(2, 1);
  world.publish();
  world.publish();
  const WriteAttempt over_one = world.begin();
  world.writer().drop(over_one.slot);
  EXPECT_EQ(world.writer_row().slot_words()[over_one.slot].load(), 0U);
  EXPECT_EQ(read(world, 1), Read::kGone);
  EXPECT_EQ(read(world, over_one.version), Read::kGone) << "it will never come";
  EXPECT_EQ(read(world), Read::kAcquired);
  world.publish();
  EXPECT_EQ(read(world, over_one.version), Read::kGone);
}

TEST(SlotRules, VersionsAreFoundByNumberWhileTheyStand) {
  SlotWorld world(3, 1);
  for (int i = 0; i < 4; ++i) world.publish();
  EXPECT_EQ(read(world, 1), Read::kGone);
  EXPECT_EQ(read(world, 2), Read::kAcquired);
  EXPECT_EQ(read(world, 4), Read::kAcquired);
  EXPECT_EQ(read(world, 5), Read::kNotYet);
  EXPECT_EQ(read(world, 0, 3), Read::kAcquired);
  EXPECT_EQ(read(world, 0, 4), Read::kNotYet);
}

TEST(SlotRules, APoisonedNumberIsTheProducersDeath) {
  SlotWorld world(3, 1);
  world.publish();
  const WriteAttempt torn = world.begin();
  world.die(0);
  EXPECT_EQ(read(world, torn.version), Read::kProducerDied);
  EXPECT_EQ(read(world), Read::kAcquired) << "the last whole version stands";
  world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
  world.give_right_to(1);
  EXPECT_EQ(world.publish(1).version, torn.version + 1);
  EXPECT_EQ(read(world, torn.version), Read::kProducerDied);
}

TEST(SlotRules, AnOnlySlotIsMarkedUntilItsReadersHaveGone) {
  SlotWorld world(1, 1);
  world.publish();
  const ReadAttempt held = world.reader(0).acquire(0, 0);
  const auto attempt = world.begin_sleeping([&](const auto&, auto) {
    EXPECT_EQ(world.writer_row().slot_words()[0].load(), 1 | wire::kWriting);
    EXPECT_EQ(read(world), Read::kNotYet) << "no new reader comes in";
    world.reader(0).release(held.slot);
    return true;
  });
  EXPECT_EQ(attempt.outcome, Write::kReady);
  EXPECT_EQ(read(world, 1), Read::kGone);
}

TEST(SlotRules, TheMarkOfAnOnlySlotIsTakenBackAtTheDeadline) {
  SlotWorld world(1, 1);
  world.publish();
  const ReadAttempt held = world.reader(0).acquire(0, 0);
  const std::uint32_t count = world.writer_row().publish_count.load();
  EXPECT_EQ(world.begin().outcome, Write::kNoFreeSlot);
  EXPECT_EQ(world.writer_row().slot_words()[0].load(), 1U) << "the old version stands again";
  EXPECT_GT(world.writer_row().publish_count.load(), count) << "whoever sleeps looks again";
  EXPECT_EQ(world.writer_row().writing.load(), 0U);
  EXPECT_EQ(read(world), Read::kAcquired);
  world.reader(0).release(held.slot);
  EXPECT_EQ(world.publish().version, 2U) << "a number that was not handed out is not used up";
}

TEST(SlotRules, ADroppedWriteOfAnOnlySlotLeavesNothing) {
  SlotWorld world(1, 1);
  world.publish();
  const std::uint32_t count = world.writer_row().publish_count.load();
  world.writer().drop(world.begin().slot);
  EXPECT_GT(world.writer_row().publish_count.load(), count);
  EXPECT_EQ(read(world), Read::kWriteAborted);
  const WriteAttempt next = world.begin();
  EXPECT_EQ(world.writer().current().version, 0U) << "there is nothing to update";
  EXPECT_EQ(read(world), Read::kNotYet) << "and it is being mended";
  world.writer().publish(0, next.version);
  EXPECT_EQ(read(world), Read::kAcquired);
}

// It is told under its number, and to nobody who knows it.
TEST(SlotRules, AfterAWriteThatCameToNothingTheNextVersionCanBeWaitedFor) {
  for (const bool died : {true, false}) {
    SlotWorld world(1, 1);
    world.publish();
    const WriteAttempt lost = world.begin();
    died ? world.die(0) : world.writer().drop(lost.slot);
    const ReadAttempt told = world.reader(0).acquire(0, 0);
    EXPECT_EQ(told.outcome, died ? Read::kProducerDied : Read::kWriteAborted);
    EXPECT_EQ(told.version, lost.version);
    EXPECT_EQ(read(world, 0, told.version), Read::kNotYet);
  }
}

// So is whoever has the version before and waits for this one: it is not to come.
TEST(SlotRules, AWriteThatCameToNothingIsToldToThoseWhoWaitForIt) {
  for (const bool died : {true, false}) {
    SlotWorld world(1, 1);
    const std::uint64_t known = world.publish().version;
    const WriteAttempt lost = world.begin();
    EXPECT_EQ(read(world, 0, known), Read::kNotYet) << "it is being written";
    died ? world.die(0) : world.writer().drop(lost.slot);
    const ReadAttempt told = world.reader(0).acquire(0, known);
    EXPECT_EQ(told.outcome, died ? Read::kProducerDied : Read::kWriteAborted);
    EXPECT_EQ(told.version, lost.version);
  }
}

TEST(SlotRules, AnOnlySlotIsEmptyBetweenADropAndTheNextPublish) {
  SlotWorld world(1, 1);
  const auto is_empty = [&] { return wire::only_slot_is_empty(world.writer_row(), 1); };
  EXPECT_TRUE(is_empty());
  world.publish();
  EXPECT_FALSE(is_empty());
  const WriteAttempt lost = world.begin();
  EXPECT_FALSE(is_empty()) << "nobody knows what comes of the write";
  world.writer().drop(lost.slot);
  EXPECT_TRUE(is_empty());
  const WriteAttempt next = world.begin();
  EXPECT_TRUE(is_empty());
  world.writer().publish(next.slot, next.version);
  EXPECT_FALSE(is_empty());
  EXPECT_FALSE(wire::only_slot_is_empty(SlotWorld(2, 1).writer_row(), 2))
      << "it is not the only one";
}

TEST(SlotRules, ADeathInTheWriteOfAnOnlySlotIsTheProducersDeath) {
  SlotWorld world(1, 1);
  world.publish();
  world.begin();
  world.die(0);
  EXPECT_EQ(read(world), Read::kProducerDied);
  world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
  world.give_right_to(1);
  EXPECT_EQ(read(world), Read::kProducerDied) << "until the next full write";
  world.publish(1);
  EXPECT_EQ(read(world), Read::kAcquired);
}

TEST(SlotRules, NoWriteBeginsWithoutTheRightOrWhileItMoves) {
  SlotWorld world(2, 1);
  EXPECT_EQ(world.begin(1).outcome, Write::kNotMine);
  server::set_moving(world.board());
  EXPECT_EQ(world.begin(0).outcome, Write::kNotMine);
  EXPECT_EQ(world.writer_row(0).writing.load(), 0U) << "the daemon waits for this";
  EXPECT_EQ(world.writer_row(0).highest_used.load(), 0U);
  server::clear_moving(world.board());
  EXPECT_EQ(world.begin(0).outcome, Write::kReady);
}

TEST(SlotRules, TheDaemonSeesEveryWriteThatTheMoveDidNotStop) {
  SlotWorld world(2, 1);
  const WriteAttempt attempt = world.begin();
  server::set_moving(world.board());
  EXPECT_TRUE(server::is_writing(world.writer_row()));
  world.writer().publish(attempt.slot, attempt.version);
  EXPECT_FALSE(server::is_writing(world.writer_row()));
  EXPECT_EQ(read(world), Read::kAcquired);
}

TEST(SlotRules, NothingBeginsAfterWithdrawalOrDrainButWhatBeganEnds) {
  for (const bool withdrawn : {true, false}) {
    SlotWorld world(3, 1);
    world.publish();
    const ReadAttempt held = world.reader(0).acquire(0, 0);
    const WriteAttempt attempt = world.begin();
    withdrawn ? server::set_withdrawn(world.board()) : server::set_draining(world.board());
    EXPECT_EQ(read(world), withdrawn ? Read::kWithdrawn : Read::kDraining);
    world.writer().publish(attempt.slot, attempt.version);
    EXPECT_EQ(world.begin().outcome, withdrawn ? Write::kWithdrawn : Write::kDraining);
    EXPECT_TRUE(server::holds_any(world.reader_row(0), world.slots()));
    world.reader(0).release(held.slot);
    EXPECT_FALSE(server::holds_any(world.reader_row(0), world.slots()));
  }
}

TEST(SlotRules, AWriteAsksForRowsThatAreNotMappedAndTakesThemForHoldsWithoutThem) {
  SlotWorld world(3, 1);
  world.publish();
  world.rows_unmapped = true;
  int asked = 0;
  SlotWaitOf wait;
  wait.on_map_rows = [&] { return ++asked < 0; };  // in vain
  EXPECT_EQ(world.writer().begin(wait).outcome, Write::kNoFreeSlot);
  EXPECT_EQ(asked, 2) << "at first, and before it would sleep";
  wait.on_map_rows = [&] { return std::exchange(world.rows_unmapped, false); };
  const auto attempt = world.writer().begin(wait);
  EXPECT_EQ(attempt.outcome, Write::kReady);
  world.writer().drop(attempt.slot);
  EXPECT_EQ(asked, 2);
}

TEST(SlotRules, ABoardRecordOfAnotherArrayIsAWithdrawnOne) {
  SlotWorld world(2, 1);
  world.publish();
  world.board().array_id.store(8);
  EXPECT_EQ(read(world), Read::kWithdrawn);
  EXPECT_EQ(world.begin().outcome, Write::kWithdrawn);
}

TEST(SlotRules, AReadNamesTheWriterWhoseRowIsNotMappedAndAsksNobodyForIt) {
  SlotWorld world(2, 1);
  world.publish();
  const wire::RowRef row = wire::writer_row_of(world.board().writer.load());
  world.rows_unmapped = true;
  const ReadAttempt attempt = world.reader(0).acquire(0, 0);
  EXPECT_EQ(attempt.outcome, Read::kUnmapped);
  EXPECT_EQ(wire::writer_row_of(attempt.version), row);
  EXPECT_EQ(world.reader(0).likely_slot(), 0U);
  EXPECT_EQ(world.reader(0).counts().used, 1U) << "the board alone can be slept on";
}

// What a hostile writer's row says about numbers is taken as far as there are any: they go on from
// there, through each change of the writer, and none is used again.
TEST(SlotRules, NumbersGoOnFromWhateverAnotherWriterSays) {
  for (const std::uint64_t lie : {std::uint64_t{1} << 57, wire::kLastVersion - 3}) {
    SlotWorld world(3, 1);
    world.publish();
    world.writer_row(0).highest_used.store(lie);
    world.writer(1).adopt(world.writer_row(0));
    world.give_right_to(1);
    EXPECT_EQ(world.publish(1).version, lie + 1);
    world.writer(0).adopt(world.writer_row(1));
    world.give_right_to(0);
    EXPECT_EQ(world.publish(0).version, lie + 2);
    world.die(0);
    world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
    world.give_right_to(1);
    EXPECT_EQ(world.publish(1).version, lie + 3);
    EXPECT_EQ(read(world, lie + 3), Read::kAcquired);
  }
}

TEST(SlotRules, AVersionAboveTheHighestNumberIsNotTakenOver) {
  for (const std::uint64_t above : {std::uint64_t{1}, std::uint64_t{1} << 40}) {
    SlotWorld world(3, 1);
    const WriteAttempt written = world.publish();
    const std::uint32_t other = (written.slot + 1) % world.slots();
    world.writer_row(0).slot_words()[other].store(written.version + above);
    world.writer(1).adopt(world.writer_row(0));
    EXPECT_EQ(world.writer_row(1).slot_words()[written.slot].load(), written.version);
    EXPECT_EQ(world.writer_row(1).slot_words()[other].load(), 0U);
  }
}

TEST(SlotRules, NumbersAreRefusedAtTheirEnd) {
  const std::uint64_t lies[] = {wire::kLastVersion, wire::kLastVersion + 1, ~std::uint64_t{0}};
  for (const std::uint64_t lie : lies) {
    for (const bool died : {true, false}) {
      for (const std::uint32_t slots : {1U, 3U}) {
        SlotWorld world(slots, 1);
        world.publish();
        world.writer_row(0).highest_used.store(lie);
        if (died) world.die(0);
        world.writer(1).adopt(world.writer_row(died ? SlotWorld::kTakeover : 0));
        world.give_right_to(1);
        for (int i = 0; i < 2; ++i) {
          const std::uint32_t count = world.writer_row(1).publish_count.load();
          EXPECT_EQ(world.begin(1).outcome, Write::kNumbersUsedUp);
          EXPECT_EQ(world.writer_row(1).writing.load(), 0U);
          EXPECT_GT(world.writer_row(1).publish_count.load(), count) << "a mark was taken back";
        }
        EXPECT_EQ(read(world, 1), Read::kAcquired) << "what stands is read on";
      }
    }
  }
}

TEST(SlotRules, TheLastNumberIsUsedOnce) {
  SlotWorld world(2, 1);
  world.writer_row(0).highest_used.store(wire::kLastVersion - 1);
  EXPECT_EQ(world.publish().version, wire::kLastVersion);
  EXPECT_EQ(read(world, wire::kLastVersion), Read::kAcquired);
  EXPECT_EQ(world.begin().outcome, Write::kNumbersUsedUp);
}

// A hostile writer's row: whatever it says, the reader stays inside its own bounds.
TEST(SlotRules, APublicationOfASlotThatDoesNotExistIsNotFollowed) {
  SlotWorld world(2, 1);
  world.publish();
  world.writer_row().publication.store(wire::pack({5, 63}));
  EXPECT_EQ(read(world), Read::kNotYet);
  EXPECT_FALSE(world.reader(0).holds_any());
}

// A third of what can be added, divided by those who read; two in any case.
TEST(SlotRules, AReaderHoldsItsShareOfTheSlotsAtMost) {
  for (const auto& [readers, share] :
       {std::pair{1U, 20U}, std::pair{2U, 10U}, std::pair{31U, 2U}}) {
    SlotWorld world({2, 64}, readers);
    std::vector<ReadAttempt> held;
    ReadAttempt last{Read::kAcquired};
    while (last.outcome == Read::kAcquired && held.size() < 60) {
      world.add_slot();
      world.publish();
      last = world.reader(0).acquire(0, 0);
      if (last.outcome == Read::kAcquired) held.push_back(last);
    }
    EXPECT_EQ(last.outcome, Read::kTooManyHeld);
    EXPECT_EQ(held.size(), share) << readers << " readers";
    world.reader(0).release(held.front().slot);
    EXPECT_EQ(read(world), Read::kAcquired);
  }
}

}  // namespace
}  // namespace memlease::testing
