// What the core remembers of what has happened, and who may see it.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/history.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_clock.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using ::testing::ElementsAre;
using testing::FakeClock;
using ::testing::IsEmpty;
using testing::peer_of;
using testing::spec_of;

constexpr std::size_t kAll = 1000;

HistoryEvent event_by(uid_t uid) {
  HistoryEvent event;
  event.uid = uid;
  return event;
}

std::vector<std::uint64_t> numbers(const History::Page& page) {
  std::vector<std::uint64_t> out;
  for (const HistoryEvent* event : page.events) out.push_back(event->number);
  return out;
}

class HistoryTest : public ::testing::Test {
 protected:
  void add(uid_t uid, int count = 1) {
    for (int i = 0; i < count; ++i) history_.add(event_by(uid));
  }

  FakeClock clock_;
  History history_{clock_, 6};
};

TEST_F(HistoryTest, EventsComeInTheirOrderWithNumberAndTime) {
  EXPECT_EQ(history_.newest(), 0U);
  EXPECT_THAT(numbers(history_.after(0, kAll)), IsEmpty());
  add(7);
  clock_.advance_ms(5);
  add(3);
  add(7);
  const auto page = history_.after(0, kAll);
  EXPECT_THAT(numbers(page), ElementsAre(1, 2, 3));
  EXPECT_EQ(page.events[0]->uid, 7U);
  EXPECT_EQ(page.events[1]->uid, 3U);
  EXPECT_EQ(page.events[1]->unix_ms, page.events[0]->unix_ms + 5);
  EXPECT_EQ(page.through, 3U);
  EXPECT_EQ(page.dropped, 0U);
  EXPECT_THAT(numbers(history_.after(1, kAll)), ElementsAre(2, 3));
}

TEST_F(HistoryTest, WhoHasSeenAllSeesNothingMore) {
  add(1, 2);
  for (const std::uint64_t seen : {2U, 1000U}) {
    const auto page = history_.after(seen, kAll);
    EXPECT_THAT(numbers(page), IsEmpty());
    EXPECT_EQ(page.through, seen);
    EXPECT_EQ(page.dropped, 0U);
  }
}

TEST_F(HistoryTest, APageEndsWhereTheNextOneBegins) {
  add(1, 2);
  add(2, 2);
  add(1, 2);
  const auto first = history_.after(0, 4);
  EXPECT_THAT(numbers(first), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(first.through, 4U);
  EXPECT_EQ(first.dropped, 0U);
  const auto second = history_.after(first.through, 4);
  EXPECT_THAT(numbers(second), ElementsAre(5, 6));
  EXPECT_EQ(second.through, 6U);
}

TEST_F(HistoryTest, WhatThereIsNoRoomForIsCounted) {
  add(1, 10);
  const auto page = history_.after(0, kAll);
  EXPECT_THAT(numbers(page), ElementsAre(5, 6, 7, 8, 9, 10));
  EXPECT_EQ(page.dropped, 4U);
  EXPECT_EQ(history_.after(3, kAll).dropped, 1U);
  EXPECT_EQ(history_.after(4, kAll).dropped, 0U);
}

TEST_F(HistoryTest, WhoMakesEventsInALoopPushesOutHisOwn) {
  add(1, 2);
  add(2, 100);
  const auto page = history_.after(0, kAll);
  EXPECT_THAT(numbers(page), ElementsAre(1, 2, 99, 100, 101, 102));
  EXPECT_EQ(page.dropped, 96U);
}

TEST_F(HistoryTest, OneUserMoreThanThereIsRoomForLeavesRoomForTheOthers) {
  for (uid_t uid = 1; uid <= 7; ++uid) add(uid);
  EXPECT_EQ(history_.after(0, kAll).events.size(), 6U);
}

TEST(HistoryAccess, AnArraysEventsAreForThoseWhoMayReadIt) {
  HistoryEvent event = event_by(1000);
  event.domain = AccessDomain{1000, 1000, 0640};
  EXPECT_TRUE(may_see(peer_of(1000), event));
  EXPECT_TRUE(may_see(peer_of(1001, {1000}), event));
  EXPECT_FALSE(may_see(peer_of(1002), event));
  EXPECT_TRUE(may_see(peer_of(0), event));
}

TEST(HistoryAccess, ASessionsEventsAreForItsUser) {
  const HistoryEvent event = event_by(1000);
  EXPECT_TRUE(may_see(peer_of(1000), event));
  EXPECT_FALSE(may_see(peer_of(1001, {1000}), event));
  EXPECT_TRUE(may_see(peer_of(0), event));
}

std::vector<std::string> told(const BrokerWorld& world) {
  std::vector<std::string> out;
  for (const HistoryEvent* event : world.broker.history().after(0, kAll).events) {
    out.push_back(std::string(name_of(event->what)) + " " + event->array);
  }
  return out;
}

TEST(HistoryAccess, AMechanismsEventsAreForEverybody) {
  HistoryEvent event = event_by(1000);
  event.mechanism = Mechanism::kMemory;
  EXPECT_TRUE(may_see(peer_of(1001), event));
  EXPECT_TRUE(may_see(peer_of(0), event));
}

TEST(HistoryOfTheBroker, TellsOfCreationsAndWithdrawals) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  world.create(owner, spec_of("a"));
  world.create(owner, spec_of("b"));
  world.clock.advance_ms(2500);
  ASSERT_TRUE(world.broker.withdraw(peer_of(1000), "a").ok());
  world.broker.hang_up(owner.id, Farewell::kGoodbye);
  EXPECT_THAT(told(world), ElementsAre("created a", "created b", "withdrawn a", "withdrawn b"));
  const auto withdrawn = world.happened(Happening::kWithdrawn);
  EXPECT_EQ(withdrawn[0].held_ms, 2500U);
  EXPECT_EQ(withdrawn[0].bytes, 3U * 4 * 8 * 4);
  EXPECT_EQ(withdrawn[0].reason, "");
  EXPECT_EQ(withdrawn[1].reason, "its creator has left");
}

TEST(HistoryOfTheBroker, ADeathHasTheSumOfWhatWasReclaimed) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  world.create(owner, spec_of("a"));
  world.create(owner, spec_of("b"));
  world.clock.advance_ms(1000);
  world.broker.hang_up(owner.id, Farewell::kNone);
  world.broker.exited(owner.id);
  EXPECT_THAT(told(world), ElementsAre("created a", "created b", "reclaimed a", "withdrawn a",
                                       "reclaimed b", "withdrawn b", "died "));
  const auto death = world.happened(Happening::kDied).front();
  EXPECT_EQ(death.pid, peer_of(1000).pid);
  EXPECT_EQ(death.command, "client");
  EXPECT_EQ(death.held_ms, 1000U);
  EXPECT_EQ(death.arrays, 2U);
  EXPECT_EQ(death.bytes, 2U * 3 * 4 * 8 * 4);
}

// What it had in use is lost nevertheless, and told of.
TEST(HistoryOfTheBroker, WhoExitsByItselfHasNotDied) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  world.create(session, spec_of("created"));
  world.become_writer(session, world.create(session, spec_of("written")));
  world.become_writer(session, world.create(session, spec_of("in/writing"))).writing.store(1);
  const auto held = world.create(session, spec_of("held"));
  world.subscribe(session, held).holds()[0].store(1);
  EXPECT_TRUE(world.broker.hang_up(session.id, Farewell::kExit)) << "until its exit all stands";
  EXPECT_EQ(world.happened(Happening::kWithdrawn).size(), 0U);
  world.broker.exited(session.id);
  EXPECT_EQ(world.happened(Happening::kWithdrawn).size(), 4U);
  EXPECT_EQ(world.happened(Happening::kDied).size(), 0U);
  const auto reclaimed = world.happened(Happening::kReclaimed);
  ASSERT_EQ(reclaimed.size(), 2U);
  EXPECT_EQ(reclaimed[0].reason, "was writing");
  EXPECT_EQ(reclaimed[1].reason, "held a slot");
}

// Readers wait for a next one, and whoever looks for the reason wants to know who that was.
TEST(HistoryOfTheBroker, AWriterThatDiesBetweenTwoWritesIsToldOfArraysThatLiveOn) {
  BrokerWorld world;
  Session& writer = world.connect(1000);
  Session& other = world.connect(1000);
  auto kept = spec_of("kept");
  kept.lifetime = wire::Lifetime::kPersistent;
  const auto id = world.create(writer, kept);
  auto left = spec_of("left/to/another");
  left.lifetime = wire::Lifetime::kPersistent;
  const auto left_id = world.create(writer, left);
  world.become_writer(writer, id);
  world.become_writer(writer, left_id);
  world.open(other, "left/to/another");
  world.become_writer(other, left_id);
  world.broker.hang_up(writer.id, Farewell::kNone);
  world.broker.exited(writer.id);
  const auto reclaimed = world.happened(Happening::kReclaimed);
  ASSERT_EQ(reclaimed.size(), 1U);
  EXPECT_EQ(reclaimed[0].array, "kept");
  EXPECT_EQ(reclaimed[0].reason, kWasItsWriter);
  EXPECT_EQ(reclaimed[0].pid, peer_of(1000).pid);
  EXPECT_EQ(world.broker.totals().reclaims.at("was its writer").arrays, 1U);
  EXPECT_EQ(world.happened(Happening::kDied).front().arrays, 1U);
  world.broker.hang_up(other.id, Farewell::kGoodbye);
  EXPECT_EQ(world.happened(Happening::kReclaimed).size(), 1U) << "who leaves has said so itself";
}

TEST(HistoryOfTheBroker, AnEvictionNamesWhoDidIt) {
  BrokerWorld world;
  Session& session = world.connect(1000);
  const auto held = world.create(session, spec_of("held"));
  world.subscribe(session, held).holds()[0].store(1);
  world.become_writer(session, world.create(session, spec_of("written"))).writing.store(1);
  world.become_writer(session, world.create(session, spec_of("open")));
  ASSERT_TRUE(world.broker.evict(peer_of(0), session.id).ok());
  const auto evicted = world.happened(Happening::kEvicted);
  ASSERT_EQ(evicted.size(), 1U);
  EXPECT_EQ(evicted[0].bytes, 2U * 3 * 4 * 8 * 4) << "of what it holds and writes";
  EXPECT_EQ(evicted[0].session, session.id);
  EXPECT_EQ(evicted[0].reason, "by uid 0");
  ASSERT_FALSE(world.broker.evict(peer_of(1), session.id).ok());
  EXPECT_TRUE(world.broker.evict(peer_of(0), session.id).ok()) << "again, which is nothing new";
  EXPECT_EQ(world.happened(Happening::kEvicted).size(), 1U);
}

TEST(HistoryOfTheBroker, TellsOfMechanismsThatGoAndComeBack) {
  BrokerWorld world;
  world.broker.mechanism_changed({Mechanism::kMemory, true, "there is none", "get some"});
  world.broker.mechanism_changed({Mechanism::kMemory, false, "there is some", ""});
  EXPECT_THAT(told(world), ElementsAre("degraded ", "recovered "));
  const auto degraded = world.happened(Happening::kDegraded).at(0);
  EXPECT_EQ(degraded.mechanism, Mechanism::kMemory);
  EXPECT_EQ(degraded.reason, "there is none");
  EXPECT_EQ(degraded.hint, "get some");
  EXPECT_EQ(degraded.session, wire::SessionId{0});
  EXPECT_FALSE(degraded.domain.has_value());
  EXPECT_EQ(world.happened(Happening::kRecovered).at(0).mechanism, Mechanism::kMemory);
}

}  // namespace
}  // namespace memlease::server
