// Moving writer ownership through the broker: who gets it when, and what a death at each step
// leaves behind. The clock is the test's.
#include "gtest/gtest.h"
#include "server/core/broker.h"
#include "server/core/writer_ownership.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;
using wire::WriterRow;
using WriterState = WriterAnswer::State;

class WriterOwnershipTest : public ::testing::Test {
 protected:
  WriterOwnershipTest() {
    id_ = world_.create(a_, spec_of("u"));
    world_.open(b_, "u");
    world_.open(c_, "u");
  }

  WriterAnswer ask(Session& session) {
    const auto answer = world_.broker.acquire_writer(session, id_);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : WriterAnswer{};
  }
  absl::Status confirm(Session& session, const WriterAnswer& answer) {
    return world_.broker.confirm_writer(session, id_, answer.offer);
  }
  const Array& array() { return *world_.broker.catalog().find(id_); }
  std::uint64_t word() { return array().board->writer.load(); }
  bool moving() { return (word() & wire::kWriterMoving) != 0; }
  bool vacant() { return (word() & wire::kWriterVacant) != 0; }
  std::uint64_t generation() { return wire::writer_generation_of(word()); }
  std::uint32_t events() { return array().board->event_count.load(); }
  // What a writer that stands still has in its pages.
  static void publish(WriterRow& row, std::uint64_t version, std::uint32_t slot) {
    row.highest_used.store(version);
    row.slot_words()[slot].store(version);
    row.publication.store(wire::pack({version, slot}));
  }

  BrokerWorld world_;
  Session& a_ = world_.connect(1000);
  Session& b_ = world_.connect(1000);
  Session& c_ = world_.connect(1000);
  wire::ArrayId id_{0};
};

TEST_F(WriterOwnershipTest, AFreshArrayOffersTheTakeoverRowToTheFirstWhoAsks) {
  EXPECT_TRUE(vacant());
  const std::uint64_t before = generation();
  const WriterAnswer answer = ask(a_);
  EXPECT_EQ(answer.state, WriterState::kOffered);
  EXPECT_EQ(answer.from, row_ref(*array().takeover_at));
  EXPECT_TRUE(moving());
  ASSERT_TRUE(confirm(a_, answer).ok());
  EXPECT_FALSE(moving());
  EXPECT_FALSE(vacant());
  EXPECT_EQ(wire::writer_row_of(word()), answer.row);
  EXPECT_GT(generation(), before);
}

TEST_F(WriterOwnershipTest, WhoeverHasItIsToldSo) {
  world_.become_writer(a_, id_);
  const std::uint64_t before = word();
  EXPECT_EQ(ask(a_).state, WriterState::kGranted);
  EXPECT_EQ(word(), before);
}

TEST_F(WriterOwnershipTest, TheOldWritersWriteIsWaitedFor) {
  WriterRow& old = world_.become_writer(a_, id_);
  old.writing.store(1);
  const WriterAnswer busy = ask(b_);
  EXPECT_EQ(busy.state, WriterState::kBusy);
  EXPECT_TRUE(moving()) << "no further write begins";
  EXPECT_FALSE(confirm(b_, busy).ok());
  EXPECT_EQ(ask(b_).state, WriterState::kBusy);
  old.writing.store(0);
  const WriterAnswer offered = ask(b_);
  EXPECT_EQ(offered.state, WriterState::kOffered);
  EXPECT_EQ(offered.from, wire::writer_row_of(word()));
  EXPECT_TRUE(confirm(b_, offered).ok());
  EXPECT_EQ(array().writer, b_.id);
}

TEST_F(WriterOwnershipTest, EveryConfirmedMoveGrowsTheGenerationAndWakes) {
  world_.become_writer(a_, id_);
  for (Session* session : {&b_, &a_, &b_}) {
    const std::uint64_t generation_before = generation();
    const std::uint32_t events_before = events();
    ASSERT_TRUE(confirm(*session, ask(*session)).ok());
    EXPECT_EQ(generation(), generation_before + 1);
    EXPECT_GT(events(), events_before);
  }
}

TEST_F(WriterOwnershipTest, AnOfferHoldsForItsTimeThenFallsToTheNext) {
  world_.become_writer(a_, id_);
  const WriterAnswer promised = ask(b_);
  world_.clock.advance_ms(WriterOwnership::kOfferMs - 1);
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  EXPECT_EQ(ask(a_).state, WriterState::kBusy) << "its own ownership is on its way";
  world_.clock.advance_ms(1);
  const WriterAnswer next = ask(c_);
  EXPECT_EQ(next.state, WriterState::kOffered);
  EXPECT_EQ(code_of(confirm(b_, promised)), ErrorCode::kBusy) << "too late";
  EXPECT_TRUE(confirm(c_, next).ok());
}

TEST_F(WriterOwnershipTest, AnExpiredOfferStandsWhileNobodyElseAsks) {
  const WriterAnswer promised = ask(b_);
  world_.clock.advance_ms(10 * WriterOwnership::kOfferMs);
  EXPECT_TRUE(confirm(b_, promised).ok());
}

TEST_F(WriterOwnershipTest, TheOldWriterGetsAnExpiredMoveBack) {
  world_.become_writer(a_, id_);
  ask(b_);
  world_.clock.advance_ms(WriterOwnership::kOfferMs);
  EXPECT_EQ(ask(a_).state, WriterState::kGranted);
  EXPECT_FALSE(moving());
}

TEST_F(WriterOwnershipTest, AStoppedContenderKeepsTheOthersForATenthOfASecond) {
  world_.become_writer(a_, id_);
  ASSERT_EQ(ask(b_).state, WriterState::kOffered);
  world_.clock.advance_ms(100);
  EXPECT_EQ(ask(a_).state, WriterState::kGranted);
}

// The time of an offer begins with the offer, not with the question.
TEST_F(WriterOwnershipTest, WaitingForAWriteCostsNothingOfTheOffersTime) {
  WriterRow& old = world_.become_writer(a_, id_);
  old.writing.store(1);
  ask(b_);
  world_.clock.advance_ms(WriterOwnership::kOfferMs - 1);
  old.writing.store(0);
  const WriterAnswer offered = ask(b_);
  world_.clock.advance_ms(WriterOwnership::kOfferMs - 1);
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  EXPECT_TRUE(confirm(b_, offered).ok());
}

TEST_F(WriterOwnershipTest, WhoeverWaitsForAWriteLongestKeepsHisPlaceAndNobodyIsWoken) {
  WriterRow& old = world_.become_writer(a_, id_);
  old.writing.store(1);
  EXPECT_EQ(ask(b_).state, WriterState::kBusy);
  world_.clock.advance_ms(10 * WriterOwnership::kOfferMs);
  const std::uint32_t before = events();
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  EXPECT_EQ(events(), before);
  EXPECT_TRUE(moving());
  old.writing.store(0);
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  EXPECT_EQ(ask(a_).state, WriterState::kBusy) << "also for one that writes on and on";
  EXPECT_EQ(ask(b_).state, WriterState::kOffered);
}

TEST_F(WriterOwnershipTest, WhoWasFirstAndDoesNotComeIsPassedOver) {
  WriterRow& old = world_.become_writer(a_, id_);
  old.writing.store(1);
  EXPECT_EQ(ask(b_).state, WriterState::kBusy);
  old.writing.store(0);
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  world_.clock.advance_ms(100);
  EXPECT_EQ(ask(c_).state, WriterState::kOffered) << "the other one may have been stopped";
}

TEST_F(WriterOwnershipTest, OnlyTheLatestOfferCanBeConfirmedAndOnlyByItsSession) {
  const WriterAnswer first = ask(b_);
  const WriterAnswer second = ask(b_);
  EXPECT_EQ(code_of(confirm(b_, first)), ErrorCode::kBusy);
  EXPECT_EQ(code_of(confirm(c_, second)), ErrorCode::kBusy);
  EXPECT_TRUE(confirm(b_, second).ok());
  EXPECT_EQ(code_of(confirm(b_, second)), ErrorCode::kBusy) << "once";
}

TEST_F(WriterOwnershipTest, CancelLetsTheOldWriterGoOn) {
  world_.become_writer(a_, id_);
  const WriterAnswer offered = ask(b_);
  const std::uint32_t before = events();
  ASSERT_TRUE(world_.broker.cancel_writer(b_, id_).ok());
  EXPECT_FALSE(moving());
  EXPECT_GT(events(), before) << "whoever was refused looks again";
  EXPECT_EQ(array().writer, a_.id);
  EXPECT_EQ(code_of(confirm(b_, offered)), ErrorCode::kBusy);
  ASSERT_TRUE(world_.broker.cancel_writer(b_, id_).ok()) << "cancelling nothing is no error";
}

TEST_F(WriterOwnershipTest, ASessionCancelsItsOwnMoveAlone) {
  const WriterAnswer offered = ask(b_);
  ASSERT_TRUE(world_.broker.cancel_writer(c_, id_).ok());
  EXPECT_TRUE(moving());
  EXPECT_TRUE(confirm(b_, offered).ok());
}

// ---- Deaths, at each step of a move from a to b.

TEST_F(WriterOwnershipTest, TheNewWriterDiesBeforeItsOffer) {
  WriterRow& old = world_.become_writer(a_, id_);
  old.writing.store(1);
  ask(b_);
  world_.broker.exited(b_.id);
  EXPECT_FALSE(moving());
  EXPECT_EQ(array().writer, a_.id);
  EXPECT_EQ(ask(a_).state, WriterState::kGranted);
}

TEST_F(WriterOwnershipTest, TheNewWriterDiesWithItsOffer) {
  world_.become_writer(a_, id_);
  ask(b_);
  world_.broker.exited(b_.id);
  EXPECT_FALSE(moving());
  EXPECT_TRUE(confirm(c_, ask(c_)).ok());
}

TEST_F(WriterOwnershipTest, TheNewWriterHangsUpWithItsOffer) {
  world_.become_writer(a_, id_);
  ask(b_);
  world_.broker.hang_up(b_.id, Farewell::kNone);
  EXPECT_FALSE(moving()) << "nobody can confirm without a call";
  EXPECT_EQ(ask(a_).state, WriterState::kGranted);
}

TEST_F(WriterOwnershipTest, TheNewWriterDiesAfterConfirming) {
  publish(world_.become_writer(a_, id_), 3, 1);
  const WriterAnswer offered = ask(b_);
  WriterRow& row = world_.writer_row(b_, offered.row);
  publish(row, 3, 1);  // it adopted
  ASSERT_TRUE(confirm(b_, offered).ok());
  world_.broker.exited(b_.id);
  EXPECT_TRUE(vacant());
  EXPECT_EQ(array().takeover->publication.load(), wire::pack({3, 1}));
  EXPECT_EQ(ask(a_).from, row_ref(*array().takeover_at)) << "the former writer's row is old";
}

TEST_F(WriterOwnershipTest, TheOldWriterDiesInTheWriteThatIsWaitedFor) {
  WriterRow& old = world_.become_writer(a_, id_);
  publish(old, 5, 0);
  old.writing.store(1);
  old.highest_used.store(6);
  old.slot_words()[1].store(wire::kWriting | wire::kHandedOut);
  ask(b_);
  world_.broker.exited(a_.id);
  EXPECT_FALSE(world_.broker.exists(b_.peer, "u")) << "it was a's, and a session's";
}

TEST_F(WriterOwnershipTest, TheOldWriterDiesAndTheTakeoverRowIsOfferedInItsPlace) {
  auto spec = spec_of("kept");
  spec.lifetime = wire::Lifetime::kPersistent;
  id_ = world_.create(a_, spec);
  world_.open(b_, "kept");
  WriterRow& old = world_.become_writer(a_, id_);
  publish(old, 5, 0);
  old.writing.store(1);
  old.highest_used.store(6);
  old.slot_words()[1].store(wire::kWriting | wire::kHandedOut);
  EXPECT_EQ(ask(b_).state, WriterState::kBusy);
  world_.broker.exited(a_.id);
  EXPECT_TRUE(vacant());
  EXPECT_TRUE(moving()) << "b still wants it";
  EXPECT_EQ(array().board->poisoned()[1].load(), 6U);
  const WriterAnswer offered = ask(b_);
  EXPECT_EQ(offered.state, WriterState::kOffered);
  EXPECT_EQ(offered.from, row_ref(*array().takeover_at));
  EXPECT_TRUE(confirm(b_, offered).ok());
}

TEST_F(WriterOwnershipTest, AnOfferOfADeadWritersRowIsVoid) {
  auto spec = spec_of("kept");
  spec.lifetime = wire::Lifetime::kPersistent;
  id_ = world_.create(a_, spec);
  world_.open(b_, "kept");
  publish(world_.become_writer(a_, id_), 5, 0);
  const WriterAnswer stale = ask(b_);
  world_.broker.exited(a_.id);
  EXPECT_EQ(code_of(confirm(b_, stale)), ErrorCode::kBusy)
      << "b may have copied half of a row that is gone";
  EXPECT_TRUE(confirm(b_, ask(b_)).ok());
}

TEST_F(WriterOwnershipTest, LeavingMakesTheTakeoverRowTheWriters) {
  publish(world_.become_writer(b_, id_), 4, 2);
  ASSERT_TRUE(world_.broker.leave(b_, id_, 1).ok());
  EXPECT_TRUE(vacant());
  EXPECT_EQ(array().takeover->publication.load(), wire::pack({4, 2}));
  EXPECT_EQ(array().board->poisoned()[2].load(), 0U);
}

TEST_F(WriterOwnershipTest, WithdrawEndsAMoveThatWasOffered) {
  world_.become_writer(a_, id_).writing.store(1);
  ask(b_);
  ASSERT_TRUE(world_.broker.withdraw(a_.peer, "u").ok());
  EXPECT_FALSE(moving());
  EXPECT_NE(word() & wire::kWriterWithdrawn, 0U);
  EXPECT_FALSE(world_.broker.acquire_writer(b_, id_).ok());
}

// An array whose writer is one session alone; it outlives its creator.
class ExclusiveWriterTest : public WriterOwnershipTest {
 protected:
  ExclusiveWriterTest() {
    wire::ArraySpec spec = spec_of("mine");
    spec.writer = wire::Writer::kExclusive;
    spec.lifetime = wire::Lifetime::kPersistent;
    id_ = world_.create(a_, spec);
    world_.open(b_, "mine");
    world_.open(c_, "mine");
  }
  void expect_refused(Session& session) {
    const std::uint64_t before = word();
    const auto answer = world_.broker.acquire_writer(session, id_);
    EXPECT_EQ(code_of(answer.status()), ErrorCode::kDenied);
    EXPECT_NE(wire::message_of(answer.status()).find("pid 5000 (client)"), std::string::npos)
        << answer.status();
    EXPECT_EQ(word(), before);
  }
};

TEST_F(ExclusiveWriterTest, IsTheCreatorAlone) {
  expect_refused(b_);
  world_.become_writer(a_, id_);
  expect_refused(b_);
  EXPECT_EQ(ask(a_).state, WriterState::kGranted);
}

TEST_F(ExclusiveWriterTest, IsTheFirstToConfirmOnceItHasLeft) {
  world_.become_writer(a_, id_);
  ASSERT_TRUE(world_.broker.leave(a_, id_, 1).ok());
  const WriterAnswer offer = ask(b_);
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  ASSERT_TRUE(confirm(b_, offer).ok());
  expect_refused(c_);
  world_.open(a_, "mine");
  expect_refused(a_);
}

TEST_F(ExclusiveWriterTest, IsAnotherOnceItHasDied) {
  world_.become_writer(a_, id_).writing.store(1);
  world_.broker.hang_up(a_.id, Farewell::kNone);
  world_.broker.exited(a_.id);
  world_.become_writer(b_, id_);
  expect_refused(c_);
}

// It can open nothing again, and will not know that somebody asks: but its write is waited for.
TEST_F(ExclusiveWriterTest, IsAnotherOnceItsConnectionHasEnded) {
  WriterRow& row = world_.become_writer(a_, id_);
  row.writing.store(1);
  world_.broker.hang_up(a_.id, Farewell::kNone);
  EXPECT_EQ(ask(b_).state, WriterState::kBusy);
  row.writing.store(0);
  const WriterAnswer offer = ask(b_);
  ASSERT_TRUE(confirm(b_, offer).ok());
  expect_refused(c_);
}

TEST_F(ExclusiveWriterTest, IsAPartOfWhatAnArrayIs) {
  wire::ArraySpec other = spec_of("mine");
  other.lifetime = wire::Lifetime::kPersistent;
  EXPECT_EQ(code_of(world_.try_create(b_, other, true).status()), ErrorCode::kAlreadyExists);
}

// ---- Many who want it: a_ writes, b_ is the next, the others wait behind.

class WriterQueueTest : public WriterOwnershipTest {
 protected:
  WriterQueueTest() {
    world_.open(d_, "u");
    own_ = &world_.become_writer(a_, id_);
    own_->writing.store(1);
    EXPECT_EQ(ask(b_).ahead, 0U);
    c_turn_ = ask(c_).turn;
    d_turn_ = ask(d_).turn;
  }
  // How often it has been told to ask again.
  std::uint32_t told(const Session& session) {
    const NameBoard::Count& then = session.id == c_.id ? c_turn_ : d_turn_;
    return world_.turn_count(id_, session) - then.count;
  }
  void a_writes() {
    publish(*own_, own_->highest_used.load() + 1, 0);
    own_->writing.store(0);
  }
  void move_to_b() {
    a_writes();
    ASSERT_TRUE(confirm(b_, ask(b_)).ok());
  }

  Session& d_ = world_.connect(1000);
  WriterRow* own_ = nullptr;
  NameBoard::Count c_turn_;
  NameBoard::Count d_turn_;
};

TEST_F(WriterQueueTest, EachIsToldHowManyComeFirstAndOnceItIsItsTurn) {
  EXPECT_EQ(ask(c_).ahead, 1U);
  EXPECT_EQ(ask(d_).ahead, 2U);
  EXPECT_EQ(ask(c_).ahead, 1U) << "who asks again keeps the place";
  EXPECT_EQ(told(c_) + told(d_), 0U);
  move_to_b();
  EXPECT_EQ(told(c_), 1U);
  EXPECT_EQ(told(d_), 0U);
  EXPECT_EQ(ask(d_).state, WriterState::kBusy) << "it is not its turn, though nobody is at work";
  EXPECT_EQ(ask(a_).ahead, 2U) << "who has just written comes last";
  world_.clock.advance_ms(WriterOwnership::kBeginMs);
  ASSERT_TRUE(confirm(c_, ask(c_)).ok());
  EXPECT_EQ(told(d_), 1U);
}

TEST_F(WriterQueueTest, WhoHasGotItMayBeginFirst) {
  move_to_b();
  WriterRow& row = world_.writer_row(b_, wire::writer_row_of(word()));
  const WriterAnswer early = ask(c_);
  EXPECT_EQ(early.state, WriterState::kBusy);
  EXPECT_EQ(early.ahead, 0U);
  EXPECT_FALSE(moving()) << "else it would go on without a write";
  row.writing.store(1);
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  EXPECT_TRUE(moving());
  publish(row, 7, 1);
  row.writing.store(0);
  EXPECT_EQ(ask(c_).state, WriterState::kOffered);
}

TEST_F(WriterQueueTest, AShortWriteIsAWrite) {
  move_to_b();
  publish(world_.writer_row(b_, wire::writer_row_of(word())), 7, 1);
  EXPECT_EQ(ask(c_).state, WriterState::kOffered);
}

TEST_F(WriterQueueTest, WhoHasGotItAndDoesNotBeginLosesIt) {
  move_to_b();
  world_.clock.advance_ms(WriterOwnership::kBeginMs - 1);
  EXPECT_EQ(ask(c_).state, WriterState::kBusy);
  world_.clock.advance_ms(1);
  EXPECT_EQ(ask(c_).state, WriterState::kOffered);
}

TEST_F(WriterQueueTest, WhoDoesNotAskInItsTurnLosesItsPlace) {
  move_to_b();
  world_.clock.advance_ms(WriterOwnership::kOfferMs - 1);
  EXPECT_EQ(ask(d_).ahead, 1U);
  world_.clock.advance_ms(1);
  EXPECT_EQ(ask(d_).state, WriterState::kOffered);
  EXPECT_EQ(ask(c_).ahead, 1U) << "and comes behind the others when it goes on";
}

TEST_F(WriterQueueTest, AnOfferThatNobodyTakesGoesToTheNext) {
  a_writes();
  EXPECT_EQ(ask(b_).state, WriterState::kOffered);
  EXPECT_EQ(ask(d_).state, WriterState::kBusy);
  world_.clock.advance_ms(WriterOwnership::kOfferMs);
  EXPECT_EQ(ask(d_).state, WriterState::kBusy) << "c_ is told, as it comes first";
  EXPECT_EQ(told(c_), 1U);
  EXPECT_EQ(ask(c_).state, WriterState::kOffered);
}

TEST_F(WriterQueueTest, WhoGivesUpOrGoesMakesRoom) {
  EXPECT_TRUE(world_.broker.cancel_writer(c_, id_).ok());
  EXPECT_EQ(ask(d_).ahead, 1U);
  EXPECT_TRUE(world_.broker.leave(b_, id_, 1).ok());
  EXPECT_EQ(told(d_), 1U) << "it is its turn now";
  a_writes();
  EXPECT_EQ(ask(d_).state, WriterState::kOffered);
}

TEST_F(WriterQueueTest, AllAreToldThatNothingIsWrittenAnyMore) {
  ASSERT_TRUE(world_.broker.withdraw(testing::peer_of(1000), "u").ok());
  EXPECT_NE(told(c_), 0U);
  EXPECT_NE(told(d_), 0U);
}

// Until somebody writes them they share a row.
TEST(Takeover, LeavesNothingToArraysThatNobodyHasWritten) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& writer = world.connect(1000);
  const auto written = world.create(owner, spec_of("written"));
  const auto other = world.create(owner, spec_of("other"));
  world.open(writer, "written");
  wire::WriterRow& row = world.become_writer(writer, written);
  row.highest_used.store(1);
  row.slot_words()[0].store(1);
  row.publication.store(wire::pack({1, 0}));
  world.broker.exited(writer.id);
  const auto stands = [&](wire::ArrayId id) {
    return wire::unpack_publication(world.broker.catalog().find(id)->takeover->publication.load());
  };
  EXPECT_EQ(stands(written).version, 1U);
  EXPECT_EQ(stands(other).version, 0U);
}

}  // namespace
}  // namespace memlease::server
