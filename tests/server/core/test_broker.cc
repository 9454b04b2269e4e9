#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/broker.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeMemory;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

TEST(Broker, ACreatedArrayCanBeOpenedByNameByWhoeverMayReadIt) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& friendly = world.connect(1001);
  const auto id = world.create(owner, spec_of("sim/u", 0604));
  const auto opened = world.broker.open(friendly, "sim/u");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->array->id, id);
  EXPECT_FALSE(opened->may_write);
  EXPECT_FALSE(opened->created);
}

TEST(Broker, ANameIsTakenOnceUnlessTheSameIsAskedForWithExistOk) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  const auto taken = world.try_create(owner, spec_of("u")).status();
  EXPECT_EQ(code_of(taken), ErrorCode::kAlreadyExists);
  EXPECT_THAT(wire::hint_of(taken), HasSubstr("create with exist_ok"));
  auto same = spec_of("u");
  same.strides_bytes = {32, 4};  // C order, spelt out
  same.max_slots = 64;           // the default of so small an array, likewise
  const auto again = world.try_create(owner, same, true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->array->id, id);
  EXPECT_FALSE(again->created);
}

TEST(Broker, ExistOkRefusesAnyDifference) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  world.create(owner, spec_of("u"));
  std::vector<wire::ArraySpec> others(7, spec_of("u"));
  others[0].shape = {8, 4};
  others[1].slots = 2;
  others[2].mode = 0640;
  others[3].dtype.bits = 64;
  others[4].lifetime = wire::Lifetime::kPersistent;
  others[5].strides_bytes = {4, 16};
  others[6].max_slots = 8;
  for (const auto& other : others) {
    EXPECT_EQ(code_of(world.try_create(owner, other, true).status()), ErrorCode::kAlreadyExists);
    const auto taken = world.try_create(owner, other).status();
    EXPECT_THAT(wire::hint_of(taken), Not(HasSubstr("exist_ok"))) << "that would not help";
  }
  EXPECT_EQ(world.broker.catalog().size(), 1U);
}

TEST(Broker, RefusesWhatIsInvalidOrOnAnotherDevice) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  EXPECT_EQ(code_of(world.try_create(owner, spec_of("../u")).status()),
            ErrorCode::kInvalidArgument);
  auto elsewhere = spec_of("u");
  elsewhere.device = "cuda:0";
  EXPECT_EQ(code_of(world.try_create(owner, elsewhere).status()), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of(world.broker.open(owner, "a//b").status()), ErrorCode::kInvalidArgument);
}

TEST(Broker, SubscribingTwiceGivesTheSameRow) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  const auto first = world.broker.subscribe(owner, id);
  const auto second = world.broker.subscribe(owner, id);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->row, second->row);
}

TEST(Broker, ManySubscribersEachHaveAnEntryThatNeverMoves) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  const Array& array = *world.broker.catalog().find(id);
  constexpr std::size_t kSessions = 40;  // more than a record and a chunk have room for
  std::vector<Session*> sessions;
  std::vector<wire::Word*> entries;
  for (std::size_t i = 0; i < kSessions; ++i) {
    sessions.push_back(&world.connect(1000));
    world.open(*sessions.back(), "u");
    world.subscribe(*sessions.back(), id);
    entries.push_back(sessions.back()->memberships.at(id).entry);
  }
  EXPECT_EQ(array.rare().chunks.size(), 5U);
  ASSERT_TRUE(world.broker.leave(*sessions[20], id, 1).ok());
  EXPECT_EQ(entries[20]->load(), 0U);
  for (std::size_t i = 0; i < kSessions; ++i) {
    EXPECT_EQ(entries[i]->load() == 0, i == 20) << i;
  }
  Session& late = world.connect(1000);
  world.open(late, "u");
  world.subscribe(late, id);
  EXPECT_EQ(late.memberships.at(id).entry, entries[20]) << "an empty entry is used again";
}

TEST(Broker, ANameThatIsTakenSaysHowLongByWhom) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  auto persistent = spec_of("p");
  persistent.lifetime = wire::Lifetime::kPersistent;
  world.create(owner, persistent);
  world.create(owner, spec_of("s"));
  const auto refused = [&](Session& session, const wire::ArraySpec& spec) {
    return world.try_create(session, spec).status();
  };
  constexpr auto kOwnUid = "this process itself has created", kEnd = "until this process ends";
  EXPECT_THAT(wire::message_of(refused(owner, spec_of("s"))), HasSubstr(kOwnUid));
  EXPECT_THAT(wire::hint_of(refused(owner, spec_of("s"))), HasSubstr(kEnd));
  EXPECT_THAT(wire::message_of(refused(owner, persistent)), HasSubstr(kOwnUid));
  EXPECT_THAT(wire::hint_of(refused(owner, persistent)), Not(HasSubstr(kEnd)));
  Session& other = world.connect(1000);
  EXPECT_THAT(wire::message_of(refused(other, spec_of("s"))), Not(HasSubstr(kOwnUid)));
  EXPECT_THAT(wire::hint_of(refused(other, spec_of("s"))), Not(HasSubstr(kEnd)));
}

TEST(Broker, LeaveCountsOpensAndWaitsForTheHolds) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  world.open(owner, "u");
  wire::ReaderRow& row = world.subscribe(owner, id);
  ASSERT_TRUE(world.broker.leave(owner, id, 1).ok());
  row.holds()[1].store(1);
  EXPECT_EQ(code_of(world.broker.leave(owner, id, 1)), ErrorCode::kBusy);
  row.holds()[1].store(0);
  EXPECT_TRUE(world.broker.leave(owner, id, 1).ok());
  EXPECT_TRUE(world.broker.leave(owner, id, 1).ok()) << "twice";
  EXPECT_EQ(code_of(world.broker.subscribe(owner, id).status()), ErrorCode::kWithdrawn);
  EXPECT_TRUE(world.broker.exists(peer_of(1000), "u")) << "its creator still lives";
}

// An answer that did not come: the client asks again, whatever it has opened since.
TEST(Broker, ADepartureWithANumberIsDoneOnce) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  ASSERT_TRUE(world.broker.leave_once(owner, id, 1, 1).ok());
  world.open(owner, "u");
  EXPECT_TRUE(world.broker.leave_once(owner, id, 1, 1).ok());
  EXPECT_EQ(owner.memberships.at(id).opens, 1U) << "that was the array's former opening";
  owner.done_departures.note_answered(2);
  EXPECT_TRUE(world.broker.leave_once(owner, id, 1, 1).ok()) << "a first call that comes last";
  EXPECT_EQ(owner.memberships.at(id).opens, 1U);
  EXPECT_TRUE(world.broker.leave_once(owner, id, 1, 2).ok());
  EXPECT_FALSE(owner.memberships.contains(id));
}

TEST(Broker, ADepartureThatWasRefusedIsDoneLater) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  wire::ReaderRow& row = world.subscribe(owner, id);
  row.holds()[1].store(1);
  EXPECT_EQ(code_of(world.broker.leave_once(owner, id, 1, 1)), ErrorCode::kBusy);
  row.holds()[1].store(0);
  EXPECT_TRUE(world.broker.leave_once(owner, id, 1, 1).ok());
  EXPECT_FALSE(owner.memberships.contains(id));
}

// Also where the place of one in a ring was another's before.
TEST(DoneDepartures, AreKnownByTheirNumbersHoweverManyThereHaveBeen) {
  DoneDepartures done;
  for (std::uint64_t number = 1; number < 3 * wire::kDeparturesInDoubt; ++number) {
    ASSERT_TRUE(done.has_room_for(number));
    ASSERT_FALSE(done.contains(number));
    done.add(number);
    ASSERT_TRUE(done.contains(number));
    ASSERT_FALSE(done.contains(number + wire::kDeparturesInDoubt)) << "in the same place";
    if (number % 1000 == 0) done.note_answered(number - 10);
  }
  done.note_answered(UINT64_MAX - 1);
  EXPECT_TRUE(done.contains(1));
  EXPECT_FALSE(done.contains(UINT64_MAX));
}

TEST(Broker, KeepsNumbersOfSoManyDeparturesOnly) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  const std::uint64_t far = wire::kDeparturesInDoubt + 1;
  EXPECT_EQ(code_of(world.broker.leave_once(owner, id, 1, far)), ErrorCode::kInvalidArgument);
  owner.done_departures.note_answered(2);
  EXPECT_TRUE(world.broker.leave_once(owner, id, 1, far).ok());
}

TEST(Broker, LeaveWaitsForTheWriteToo) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  wire::WriterRow& row = world.become_writer(owner, id);
  row.writing.store(1);
  EXPECT_EQ(code_of(world.broker.leave(owner, id, 1)), ErrorCode::kBusy);
  row.writing.store(0);
  EXPECT_TRUE(world.broker.leave(owner, id, 1).ok());
}

TEST(Broker, WithdrawReturnsTheMemoryOfAnUnusedArrayAtOnce) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  world.open(world.connect(1000), "u");
  ASSERT_TRUE(world.broker.withdraw(peer_of(1000), "u").ok());
  EXPECT_EQ(world.broker.catalog().find(id), nullptr);
  EXPECT_EQ(world.broker.host().segments.memory_bytes(), 0U);
  EXPECT_FALSE(world.broker.exists(peer_of(1000), "u"));
  EXPECT_EQ(code_of(world.broker.subscribe(owner, id).status()), ErrorCode::kWithdrawn);
  EXPECT_TRUE(world.broker.leave(owner, id, 1).ok()) << "its client may still say so";
}

TEST(Broker, AWithdrawnArrayLivesUntilItsLastHolderLeavesWhileItsNameIsFree) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  world.open(reader, "u");
  wire::ReaderRow& row = world.subscribe(reader, id);
  row.holds()[0].store(1);
  ASSERT_TRUE(world.broker.withdraw(peer_of(1000), "u").ok());
  EXPECT_NE(world.broker.catalog().find(id), nullptr);
  EXPECT_EQ(code_of(world.broker.open(owner, "u").status()), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(world.broker.acquire_writer(owner, id).status()), ErrorCode::kWithdrawn);
  const auto second = world.create(owner, spec_of("u"));
  EXPECT_NE(second, id);
  row.holds()[0].store(0);
  ASSERT_TRUE(world.broker.leave(reader, id, 1).ok());
  EXPECT_EQ(world.broker.catalog().find(id), nullptr);
  EXPECT_NE(world.broker.catalog().find(second), nullptr);
}

TEST(Broker, ExitEndsWhatTheProcessHeldAndSaysSo) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1001);
  auto persistent = spec_of("kept", 0604);
  persistent.lifetime = wire::Lifetime::kPersistent;
  world.create(owner, persistent);
  const auto id = world.create(owner, spec_of("u", 0604));
  world.open(reader, "u");
  world.subscribe(reader, id).holds()[2].store(1);
  world.become_writer(owner, id).writing.store(1);
  world.clock.advance_ms(1500);
  world.broker.hang_up(owner.id, Farewell::kNone);
  world.broker.exited(owner.id);
  const auto reclaimed = world.happened(server::Happening::kReclaimed);
  ASSERT_EQ(reclaimed.size(), 1U);
  EXPECT_EQ(reclaimed[0].array, "u");
  EXPECT_EQ(reclaimed[0].reason, "was writing");
  EXPECT_EQ(reclaimed[0].bytes, 3U * 4 * 8 * 4);
  EXPECT_EQ(reclaimed[0].held_ms, 1500U);
  EXPECT_FALSE(world.broker.exists(peer_of(0), "u")) << "a session's array goes with its creator";
  EXPECT_TRUE(world.broker.exists(peer_of(0), "kept"));
  EXPECT_NE(world.broker.catalog().find(id), nullptr) << "but its reader still holds a slot";
  world.broker.exited(reader.id);
  const auto held = world.happened(server::Happening::kReclaimed);
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(held[1].reason, "held a slot");
  EXPECT_EQ(world.broker.catalog().find(id), nullptr);
}

// Set back, or for the first time, on a machine that has none while it is off.
TEST(Broker, AClockThatWasSetMakesNobodyAHolderForAges) {
  for (const std::uint64_t set_to_ms : {1'000U, 4'000'000'000U}) {
    BrokerWorld world;
    Session& owner = world.connect(1000);
    world.create(owner, spec_of("u"));
    world.clock.advance_ms(1500);
    world.clock.set_unix_ms(set_to_ms * 1000);
    world.broker.exited(owner.id);
    const auto reclaimed = world.happened(server::Happening::kReclaimed);
    ASSERT_EQ(reclaimed.size(), 1U);
    EXPECT_EQ(reclaimed[0].reason, "created it");
    EXPECT_EQ(reclaimed[0].held_ms, 1500U);
  }
}

// Its client has not seen the answer of one of them, and so leaves once too few.
TEST(Broker, AnOpenTooManyStopsNobodyAndEndsWithItsSession) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& other = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  world.open(other, "u");
  world.open(other, "u");
  world.subscribe(other, id);
  world.become_writer(other, id);
  ASSERT_TRUE(world.broker.leave(other, id, 1).ok());
  world.become_writer(owner, id);
  EXPECT_FALSE(world.broker.in_use());
  ASSERT_TRUE(world.broker.withdraw(peer_of(1000), "u").ok());
  EXPECT_FALSE(world.broker.exists(peer_of(1000), "u"));
  world.unmap_pages();
  world.broker.hang_up(owner.id, Farewell::kGoodbye);
  EXPECT_FALSE(world.broker.hang_up(other.id, Farewell::kGoodbye));
  EXPECT_TRUE(world.broker.idle());
  EXPECT_EQ(world.memory.live(), FakeMemory::Live{});
}

// However many there are, nobody waits long for a look at them.
TEST(Broker, WithdrawnArraysAreLookedAtInTurns) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1000);
  std::vector<wire::HalfWord*> holds;
  for (const char* name : {"a", "b", "c"}) {
    const auto id = world.create(owner, spec_of(name));
    world.open(reader, name);
    holds.push_back(&world.subscribe(reader, id).holds()[0]);
    holds.back()->store(1);
    ASSERT_TRUE(world.broker.withdraw(peer_of(1000), name).ok());
  }
  const auto turns = [&] {
    int calls = 0;
    do {
      EXPECT_TRUE(world.broker.give_back_unused(1));
      ++calls;
    } while (world.broker.looks_for_unused());
    return calls;
  };
  EXPECT_EQ(turns(), 3) << "and the third one has seen the end";
  holds[0]->store(0);
  holds[2]->store(0);
  turns();
  EXPECT_EQ(world.broker.catalog().size(), 1U);
  holds[1]->store(0);
  EXPECT_FALSE(world.broker.give_back_unused(1));
  EXPECT_EQ(world.broker.catalog().size(), 0U);
}

// The end of a lease calls nobody.
TEST(Broker, AWithdrawnArrayGoesOnceItsLastHoldHasEvenWithoutACall) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  wire::ReaderRow& row = world.subscribe(owner, id);
  row.holds()[1].store(1);
  ASSERT_TRUE(world.broker.withdraw(peer_of(1000), "u").ok());
  EXPECT_TRUE(world.broker.give_back_unused());
  EXPECT_NE(world.broker.catalog().find(id), nullptr);
  row.holds()[1].store(0);
  EXPECT_FALSE(world.broker.give_back_unused());
  EXPECT_EQ(world.broker.catalog().find(id), nullptr);
  EXPECT_TRUE(world.broker.leave(owner, id, 1).ok()) << "that comes later";
}

TEST(Broker, AHangUpAloneEndsNothingThatIsMapped) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  wire::ReaderRow& row = world.subscribe(owner, id);
  row.holds()[0].store(1);
  wire::Word* entry = owner.memberships.at(id).entry;
  world.broker.hang_up(owner.id, Farewell::kNone);
  EXPECT_NE(entry->load(), 0U) << "a writer still sees this reader";
  EXPECT_TRUE(world.broker.in_use());
  EXPECT_TRUE(world.broker.exists(peer_of(1000), "u"));
}

TEST(Broker, AnotherProgramInItsProcessEndsASessionAsItsExitDoes) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1001);
  const auto id = world.create(owner, spec_of("u", 0604));
  world.open(reader, "u");
  world.subscribe(reader, id).holds()[2].store(1);
  world.become_writer(owner, id).writing.store(1);
  world.broker.hang_up(reader.id, Farewell::kNone);
  EXPECT_TRUE(world.broker.program_replaced(reader.id));
  world.broker.hang_up(owner.id, Farewell::kNone);
  EXPECT_TRUE(world.broker.program_replaced(owner.id));
  const auto reclaimed = world.happened(server::Happening::kReclaimed);
  ASSERT_EQ(reclaimed.size(), 2U);
  EXPECT_EQ(reclaimed[0].reason, "held a slot");
  EXPECT_EQ(reclaimed[1].reason, "was writing");
  EXPECT_TRUE(world.broker.idle());
}

TEST(Broker, GoodbyeEndsTheSessionUnlessItLies) {
  BrokerWorld world;
  Session& honest = world.connect(1000);
  world.create(honest, spec_of("a"));
  world.broker.hang_up(honest.id, Farewell::kGoodbye);
  EXPECT_EQ(world.broker.sessions().size(), 0U);
  EXPECT_EQ(world.memory.live(), FakeMemory::Live{});

  Session& liar = world.connect(1000);
  const auto id = world.create(liar, spec_of("b"));
  world.subscribe(liar, id).holds()[0].store(1);
  world.broker.hang_up(liar.id, Farewell::kGoodbye);
  EXPECT_EQ(world.broker.sessions().size(), 1U);
  EXPECT_TRUE(world.broker.exists(peer_of(1000), "b"));
  world.unmap_pages();
  world.broker.exited(liar.id);
  EXPECT_TRUE(world.broker.idle());
  EXPECT_EQ(world.memory.live(), FakeMemory::Live{});
}

TEST(Broker, WhoNeverLeavesKeepsNothingOfArraysThatHaveGone) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1001);
  const auto subscribed = world.create(owner, spec_of("a", 0604));
  world.open(reader, "a");
  world.subscribe(reader, subscribed);
  ASSERT_TRUE(world.broker.withdraw(owner.peer, "a").ok());
  EXPECT_TRUE(reader.memberships.contains(subscribed)) << "its row may still be looked at";
  EXPECT_TRUE(world.broker.leave(reader, subscribed, 1).ok());

  for (int i = 0; i < 10; ++i) {
    const auto id = world.create(owner, spec_of("b", 0604));
    world.open(reader, "b");
    ASSERT_TRUE(world.broker.withdraw(owner.peer, "b").ok());
    EXPECT_TRUE(world.broker.leave(owner, id, 1).ok()) << "who says so late says nothing wrong";
    EXPECT_EQ(code_of(world.broker.subscribe(reader, id).status()), ErrorCode::kWithdrawn);
  }
  EXPECT_TRUE(owner.memberships.empty());
  EXPECT_TRUE(reader.memberships.empty());
}

TEST(Broker, ADrainingDaemonBeginsNothingAndTellsTheClientsPages) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  const auto id = world.create(owner, spec_of("u"));
  world.broker.drain();
  for (const absl::Status& status :
       {world.broker.open_session(peer_of(1)).status(), world.broker.open(owner, "u").status(),
        world.try_create(owner, spec_of("v")).status(), world.broker.subscribe(owner, id).status(),
        world.broker.acquire_writer(owner, id).status()}) {
    EXPECT_EQ(code_of(status), ErrorCode::kDaemonUnavailable);
  }
  const auto word = world.broker.catalog().find(id)->board->writer.load();
  EXPECT_NE(word & wire::kWriterDraining, 0U);
  EXPECT_TRUE(world.broker.leave(owner, id, 1).ok()) << "leaving is always possible";
}

// Memory is made without the core, so several creates of a uid may be under way at once.
TEST(Broker, ChargesAnArrayWhileItsMemoryIsMade) {
  constexpr std::uint64_t kArrayBytes = std::uint64_t{3} * 256;
  BrokerWorld world({{0, 0}, {kArrayBytes, 0, 0}});
  Session& session = world.connect(1000);
  const auto growth_of = [&](const std::string& name) {
    auto creation = world.broker.create(session, spec_of(name), false);
    EXPECT_TRUE(creation.ok()) << creation.status();
    return std::get<SegmentPool::Growth>(*creation);
  };
  const auto first = growth_of("a");
  const auto second = world.broker.create(session, spec_of("b"), false);
  EXPECT_EQ(code_of(second.status()), ErrorCode::kQuotaExceeded) << "two are more than the quota";
  EXPECT_FALSE(world.broker.add_memory(first, wire::defect("no memory")).ok());
  auto third = growth_of("b");
  ASSERT_TRUE(world.broker.add_memory(third, SegmentPool::make(world.memory, third)).ok());
  EXPECT_TRUE(std::holds_alternative<Broker::Opened>(
      world.broker.create(session, spec_of("b"), false).value()));
}

}  // namespace
}  // namespace memlease::server
