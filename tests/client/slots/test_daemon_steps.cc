// Each step of the daemon's half of the slot protocol, and what becomes of it without that step.
// tests/model/ has the same rules, with all interleavings; slot_steps.h tells how they are played.
#include <optional>
#include <variant>

#include "server/core/slot_board.h"
#include "server/core/writer_ownership.h"
#include "tests/client/slots/membership.h"
#include "tests/client/slots/slot_steps.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"

namespace memlease::testing {
namespace {

using internal::leaves_out;
using internal::WriteAttempt;
using Read = internal::ReadOutcome;
using Write = internal::WriteOutcome;
using State = server::WriterAnswer::State;

// ---- What a writer leaves behind: slot_board's take_over().

bool who_waits_for_a_torn_number_is_told() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt torn = world.begin();
  world.die(0);
  return world.reader(0).acquire(torn.version, 0).outcome == Read::kProducerDied;
}

// As if the word were stored before what comes next.
void name_the_takeover_row_now(SlotWorld& world) {
  server::set_writer(world.board(), SlotWorld::writer_ref(SlotWorld::kTakeover), true);
}

bool whoever_finds_the_takeover_row_finds_the_poison() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt torn = world.begin();
  Read told = Read::kNotYet;
  at("takeover.row", [&] {
    if (leaves_out("poison before the writer word")) name_the_takeover_row_now(world);
  });
  at("set_writer.word", [&] { told = world.reader(0).acquire(torn.version, 0).outcome; });
  world.die(0);
  return told == Read::kProducerDied;
}

bool whoever_finds_the_takeover_row_finds_its_row() {
  SlotWorld world(2, 1);
  world.publish();
  Read told = Read::kNotYet;
  at("takeover.begin", [&] {
    if (leaves_out("takeover row before the writer word")) name_the_takeover_row_now(world);
  });
  at("set_writer.word", [&] { told = world.reader(0).acquire(1, 0).outcome; });
  world.die(0);
  return told == Read::kAcquired;
}

bool the_takeover_row_hands_the_numbers_on() {
  SlotWorld world(2, 1);
  world.publish();
  const WriteAttempt dropped = world.begin();
  world.writer().drop(dropped.slot);
  world.die(0);
  world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
  world.give_right_to(1);
  return world.begin(1).version > dropped.version;
}

bool torn_bytes_have_no_version() {
  SlotWorld world(2, 1);
  world.publish();
  world.publish();
  world.begin();  // over version 1
  world.die(0);
  return world.reader(0).acquire(1, 0).outcome != Read::kAcquired;
}

bool a_mere_mark_costs_no_version() {
  SlotWorld world(2, 1);
  world.publish();
  world.publish();
  Read told = Read::kNotYet;
  at("write.chosen", [&] {  // marked, and not handed out
    world.die(0);
    told = world.reader(0).acquire(1, 0).outcome;
  });
  world.begin();
  return told == Read::kAcquired;
}

// ---- The order of a writer's stores, by what its death between two of them leaves behind.

bool who_has_torn_nothing_else_has_poisoned_nothing_else() {
  SlotWorld world(2, 1);
  const WriteAttempt first = world.publish();
  at("write.numbered", [&] {
    if (leaves_out("number before the hand-out")) {
      world.writer_row().highest_used.store(first.version);
      world.writer_row().slot_words()[1 - first.slot].store(wire::kWriting | wire::kHandedOut);
    }
    world.die(0);
  });
  world.begin();
  world.writer(1).adopt(world.writer_row(SlotWorld::kTakeover));
  world.give_right_to(1);
  world.publish(1);
  world.publish(1);  // in the slot of the first version, which nothing has torn
  return world.reader(0).acquire(first.version, 0).outcome == Read::kGone;
}

bool what_stands_after_a_death_is_whole(std::uint32_t slots) {
  SlotWorld world(slots, 1);
  const WriteAttempt first = world.publish();
  world.payload(first.slot)[0] = first.version;
  if (slots > 1) world.publish();
  const bool bytes_first = leaves_out("hand-out before the bytes");
  at(bytes_first ? "write.numbered" : "write.handed_out", [&] {
    world.payload(first.slot)[0] = 0;  // the first byte of the write
    world.die(0);
  });
  world.begin();  // in the slot of the first version
  const bool stands = world.reader(0).acquire(first.version, 0).outcome == Read::kAcquired;
  return !stands || world.payload(first.slot)[0] == first.version;
}
bool what_stands_beside_others_is_whole() { return what_stands_after_a_death_is_whole(2); }
bool what_stands_in_an_only_slot_is_whole() { return what_stands_after_a_death_is_whole(1); }

// ---- The board: slot_board's set_writer() and its like.

bool the_same_row_again_is_another_word() {
  SlotWorld world(2, 1);
  world.publish();
  at("acquire.located", [&] {
    world.writer(1).adopt(world.writer_row(0));
    world.give_right_to(1);
    world.publish(1);
  });
  WriteAttempt over_one;
  at("acquire.held", [&] {
    // A writer that scanned before the hold was there.
    world.subscribers_hidden = true;
    over_one = world.begin(1);
  });
  at("acquire.compared", [&] {
    world.writer(1).publish(over_one.slot, over_one.version);
    world.writer().adopt(world.writer_row(1));
    world.give_right_to(0);
  });
  return stands(world, world.reader(0).acquire(0, 0), 0);
}

bool a_new_writer_ends_a_readers_sleep() {
  SlotWorld world(2, 1);
  const internal::SlotReader::Counts counts = world.reader(0).counts();
  world.give_right_to(1);
  return !would_sleep(counts.span());
}

bool a_subscribers_end_ends_the_writers_sleep() {
  Held held;
  bool sleeps_on = false;
  held.world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    held.world.unsubscribe(0);
    sleeps_on = would_sleep(words);
    return false;
  });
  return !sleeps_on;
}

// The writer sees the hold of somebody whose release count is not among the words that it is about
// to sleep on.
bool a_late_subscriber_keeps_the_writer_from_sleeping(const char* step) {
  Held held;
  held.world.unsubscribe(1);
  bool sleeps_on = false;
  at(step, [&] { held.world.subscribe(1); });
  held.world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
    sleeps_on = would_sleep(words);
    return false;
  });
  return !sleeps_on;
}
bool who_subscribes_behind_the_words_keeps_the_writer_from_sleeping() {
  return a_late_subscriber_keeps_the_writer_from_sleeping("write.words");
}
bool who_subscribes_behind_the_list_keeps_the_writer_from_sleeping() {
  return a_late_subscriber_keeps_the_writer_from_sleeping("write.listed");
}

bool who_has_not_seen_the_subscriber_has_an_old_event_count() {
  Held held;
  held.world.unsubscribe(1);
  const bool count_first = leaves_out("entry before the event count");
  std::vector<wire::FutexWait> slept_on;
  at("subscriber.begin", [&] {
    if (count_first) held.world.board().event_count.fetch_add(1);
    held.world.begin_sleeping([&](const std::vector<wire::FutexWait>& words, auto) {
      slept_on = words;
      return false;
    });
  });
  held.world.subscribe(1);
  if (count_first) held.world.board().event_count.fetch_sub(1);
  return !would_sleep(slept_on);
}

bool who_has_not_seen_the_new_writer_has_old_counts() {
  SlotWorld world(2, 1);
  const bool count_first = leaves_out("writer word before event count");
  internal::SlotReader::Counts counts;
  at("set_writer.begin", [&] {
    if (count_first) world.board().event_count.fetch_add(1);
    counts = world.reader(0).counts();
  });
  world.give_right_to(1);
  if (count_first) world.board().event_count.fetch_sub(1);
  return !would_sleep(counts.span());
}

bool an_entry_never_moves() {
  SlotWorld world(1, 2);
  world.publish();
  world.reader(1).acquire(0, 0);
  wire::Word* const entries = world.board().subscribers.entries;
  world.on_reader_row = [&](std::uint32_t reader) {
    if (reader != 0) return;  // the writer's scan is at the first entry
    const std::uint64_t second = entries[1].load();
    world.unsubscribe(0);
    if (!leaves_out("an entry stays where it is")) return;
    entries[0].store(second);
    entries[1].store(0);
  };
  return world.begin().outcome == Write::kNoFreeSlot;
}

// The daemon sets the flag and looks at the holds; the reader holds and looks at the flag.
bool who_uses_nothing_at_the_end_uses_nothing(void (*end)(wire::BoardRecord&)) {
  SlotWorld world(2, 1);
  world.publish();
  bool seen = false;
  at("acquire.located", [&] {
    end(world.board());
    seen = server::holds_any(world.reader_row(0), world.slots());
  });
  return world.reader(0).acquire(0, 0).outcome != Read::kAcquired || seen;
}
bool who_uses_nothing_at_a_withdrawal_uses_nothing() {
  return who_uses_nothing_at_the_end_uses_nothing(server::set_withdrawn);
}
bool who_uses_nothing_at_a_drain_uses_nothing() {
  return who_uses_nothing_at_the_end_uses_nothing(server::set_draining);
}

// ---- Who reads is on the board from the answer to its subscription until it holds nothing: the
// broker's subscribe() and leave().

bool who_may_acquire_is_on_the_board() {
  Membership membership;
  membership.hold_the_other_slot();
  return membership.begin().outcome == Write::kNoFreeSlot;
}

bool who_holds_a_slot_stays_on_the_board() {
  Membership membership;
  membership.hold_the_other_slot();
  const bool left = membership.world.broker.leave(membership.reads, membership.id, 1).ok();
  return !left && membership.begin().outcome == Write::kNoFreeSlot;
}

bool a_withdrawn_array_stays_while_it_is_held() {
  Membership membership;
  membership.hold_the_other_slot();
  EXPECT_TRUE(membership.world.broker.withdraw(membership.reads.peer, "u").ok());
  return membership.exists();
}

bool a_withdrawn_array_stays_while_it_is_written() {
  Membership membership;
  EXPECT_EQ(membership.begin().outcome, Write::kReady);
  EXPECT_TRUE(membership.world.broker.withdraw(membership.reads.peer, "u").ok());
  return membership.exists();
}

// ---- Moving ownership: writer_ownership.

// Three processes with one array open, of which the first is the writer.
struct Ownership {
  BrokerWorld world;
  server::Session& owner = world.connect(1000);
  server::Session& second = world.connect(1000);
  server::Session& third = world.connect(1000);
  wire::ArrayId id = world.create(owner, spec_of("u"));
  wire::WriterRow& row = world.become_writer(owner, id);
  const server::Array& array = *world.broker.catalog().find(id);
  FewRows rows;
  internal::SlotWriter writer{
      *array.board, id,        array.kind->slots, wire::writer_row_of(array.board->writer.load()),
      row,          rows.known};

  Ownership() {
    world.open(second, "u");
    world.open(third, "u");
  }
  WriteAttempt begin() {
    SlotWaitOf none;
    return writer.begin(none);
  }
  server::WriterAnswer ask(server::Session& session) {
    const auto answer = world.broker.acquire_writer(session, id);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : server::WriterAnswer{};
  }
  bool confirms(server::Session& session, const server::WriterAnswer& answer) {
    return world.broker.confirm_writer(session, id, answer.offer).ok();
  }
  void leave(server::Session& session) {
    const auto left = world.broker.leave(session, id, 1);
    EXPECT_TRUE(left.ok()) << left;
  }
};

bool no_write_begins_beside_an_offer() {
  Ownership ownership;
  std::optional<Write> begun;
  at("ask.looked", [&] {
    wire::Word& word = ownership.array.board->writer;
    const bool late = leaves_out("moving before the look");
    if (late) word.fetch_and(~wire::kWriterMoving);
    begun = ownership.begin().outcome;
    if (late) word.fetch_or(wire::kWriterMoving);
  });
  const State answered = ownership.ask(ownership.second).state;
  return answered == State::kOffered && begun == Write::kNotMine;
}

bool nothing_is_offered_while_its_owner_writes() {
  Ownership ownership;
  EXPECT_EQ(ownership.begin().outcome, Write::kReady);
  return ownership.ask(ownership.second).state == State::kBusy;
}

bool an_old_offer_is_not_confirmed() {
  Ownership ownership;
  const server::WriterAnswer old = ownership.ask(ownership.second);
  ownership.leave(ownership.owner);
  EXPECT_EQ(ownership.ask(ownership.second).state, State::kOffered);  // the takeover row
  return !ownership.confirms(ownership.second, old);
}

bool nobody_else_confirms() {
  Ownership ownership;
  const server::WriterAnswer promised = ownership.ask(ownership.second);
  ownership.ask(ownership.third);
  return !ownership.confirms(ownership.third, promised);
}

bool a_cancelled_move_lets_the_owner_go_on() {
  Ownership ownership;
  ownership.ask(ownership.second);
  EXPECT_TRUE(ownership.world.broker.cancel_writer(ownership.second, ownership.id).ok());
  return ownership.begin().outcome == Write::kReady;
}

bool who_is_gone_keeps_no_place() {
  Ownership ownership;
  ownership.ask(ownership.second);
  ownership.leave(ownership.second);
  return ownership.begin().outcome == Write::kReady;
}

bool who_waits_behind_is_told_of_its_turn() {
  Ownership ownership;
  EXPECT_EQ(ownership.begin().outcome, Write::kReady);
  ownership.ask(ownership.second);
  const server::NameBoard::Count turn = ownership.ask(ownership.third).turn;
  ownership.leave(ownership.second);
  return ownership.world.turn_count(ownership.id, ownership.third) != turn.count;
}

bool an_offer_ends_with_its_owner() {
  Ownership ownership;
  const server::WriterAnswer promised = ownership.ask(ownership.second);
  ownership.leave(ownership.owner);
  return !ownership.confirms(ownership.second, promised);
}

bool the_takeover_row_has_what_a_gone_owner_wrote_last() {
  Ownership ownership;
  const WriteAttempt attempt = ownership.begin();
  ownership.writer.publish(attempt.slot, attempt.version);
  ownership.leave(ownership.owner);
  const bool named = (ownership.array.board->writer.load() & wire::kWriterVacant) != 0;
  const auto stands = wire::unpack_publication(ownership.array.takeover->publication.load());
  return named && stands.version == attempt.version;
}

// ---- A replica goes once its home has all that it has: Replicas' may_let_go().

bool no_write_begins_on_a_replica_that_is_let_go() {
  FakeGpu gpu("GPU-1");  // outlives the broker's segments
  BrokerWorld world;
  world.broker.add_device(gpu, {});
  server::Session& owner = world.connect(1000);
  const wire::ArrayId home = world.create(owner, spec_of("u"));
  auto opened = world.broker.open_replica(owner, home, "GPU-1");
  EXPECT_TRUE(opened.ok()) << opened.status();
  while (auto* growth = std::get_if<server::SegmentPool::Growth>(&*opened)) {
    EXPECT_TRUE(world.broker.add_memory(*growth, server::SegmentPool::make(gpu, *growth)).ok());
    opened = world.broker.open_replica(owner, home, "GPU-1");
  }
  const server::Array& replica = *std::get<server::Broker::Opened>(*opened).array;
  FewRows rows;
  wire::WriterRow& row = world.become_writer(owner, replica.id);
  rows.writer = &row;
  internal::SlotWriter writer(*replica.board, replica.id, replica.layout(),
                              wire::writer_row_of(replica.board->writer.load()), row, rows.known);
  Write begun = Write::kNotMine;
  at("let_go.looked", [&] {
    SlotWaitOf none;
    begun = writer.begin(none).outcome;
  });
  EXPECT_TRUE(world.broker.withdraw(peer_of(1000), "u@GPU-1").ok());
  return begun != Write::kReady;
}

const Step kDaemonSteps[] = {
    {"WhoWaitsForATornNumberIsTold", "poison", who_waits_for_a_torn_number_is_told},
    {"WhoeverFindsTheTakeoverRowFindsThePoison", "poison before the writer word",
     whoever_finds_the_takeover_row_finds_the_poison},
    {"WhoeverFindsTheTakeoverRowFindsItsRow", "takeover row before the writer word",
     whoever_finds_the_takeover_row_finds_its_row},
    {"TheTakeoverRowHandsTheNumbersOn", "hand the numbers on",
     the_takeover_row_hands_the_numbers_on},
    {"TornBytesHaveNoVersion", "torn bytes have no version", torn_bytes_have_no_version},
    {"AMereMarkCostsNoVersion", "a mere mark stands", a_mere_mark_costs_no_version},
    {"WhoHasTornNothingElseHasPoisonedNothingElse", "number before the hand-out",
     who_has_torn_nothing_else_has_poisoned_nothing_else},
    {"WhatStandsBesideOthersIsWhole", "hand-out before the bytes",
     what_stands_beside_others_is_whole},
    {"WhatStandsInAnOnlySlotIsWhole", "hand-out before the bytes",
     what_stands_in_an_only_slot_is_whole},
    {"TheSameRowAgainIsAnotherWord", "count the generation", the_same_row_again_is_another_word},
    {"ANewWriterEndsAReadersSleep", "count the change", a_new_writer_ends_a_readers_sleep},
    {"ASubscribersEndEndsTheWritersSleep", "count the change",
     a_subscribers_end_ends_the_writers_sleep},
    {"WhoSubscribesBehindTheWordsKeepsTheWriterFromSleeping", "count the subscriber",
     who_subscribes_behind_the_words_keeps_the_writer_from_sleeping},
    {"WhoSubscribesBehindTheListKeepsTheWriterFromSleeping", "event count before the list",
     who_subscribes_behind_the_list_keeps_the_writer_from_sleeping},
    {"WhoHasNotSeenTheSubscriberHasAnOldEventCount", "entry before the event count",
     who_has_not_seen_the_subscriber_has_an_old_event_count},
    {"WhoHasNotSeenTheNewWriterHasOldCounts", "writer word before event count",
     who_has_not_seen_the_new_writer_has_old_counts},
    {"AnEntryNeverMoves", "an entry stays where it is", an_entry_never_moves},
    {"WhoUsesNothingAtAWithdrawalUsesNothing", "set withdrawn",
     who_uses_nothing_at_a_withdrawal_uses_nothing},
    {"WhoUsesNothingAtADrainUsesNothing", "set draining", who_uses_nothing_at_a_drain_uses_nothing},
    {"WhoMayAcquireIsOnTheBoard", "list the subscriber", who_may_acquire_is_on_the_board},
    {"AWriterLooksAtEachEntryThatWasUsed", "note the entry", who_may_acquire_is_on_the_board},
    {"WhoHoldsASlotStaysOnTheBoard", "see what a session holds",
     who_holds_a_slot_stays_on_the_board},
    {"AWithdrawnArrayStaysWhileItIsHeld", "see what a session holds",
     a_withdrawn_array_stays_while_it_is_held},
    {"AWithdrawnArrayStaysWhileItIsWritten", "see a write under way",
     a_withdrawn_array_stays_while_it_is_written},
    {"NoWriteBeginsBesideAnOffer", "set moving", no_write_begins_beside_an_offer},
    {"TheRightMovesBeforeTheLook", "moving before the look", no_write_begins_beside_an_offer},
    {"NothingIsOfferedWhileItsOwnerWrites", "look at the flag",
     nothing_is_offered_while_its_owner_writes},
    {"AnOldOfferIsNotConfirmed", "look at the offer's number", an_old_offer_is_not_confirmed},
    {"NobodyElseConfirms", "look who confirms", nobody_else_confirms},
    {"ACancelledMoveLetsTheOwnerGoOn", "let the owner go on",
     a_cancelled_move_lets_the_owner_go_on},
    {"WhoIsGoneKeepsNoPlace", "cancel for who is gone", who_is_gone_keeps_no_place},
    {"WhoWaitsBehindIsToldOfItsTurn", "tell whose turn it is",
     who_waits_behind_is_told_of_its_turn},
    {"AnOfferEndsWithItsOwner", "end the offer with its owner", an_offer_ends_with_its_owner},
    {"TheTakeoverRowHasWhatAGoneOwnerWroteLast", "takeover",
     the_takeover_row_has_what_a_gone_owner_wrote_last},
    {"NoWriteBeginsOnAReplicaThatIsLetGo", "mark what is let go",
     no_write_begins_on_a_replica_that_is_let_go},
};

using DaemonSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, DaemonSteps, ::testing::ValuesIn(kDaemonSteps), promise_of);

TEST_P(DaemonSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(DaemonSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
