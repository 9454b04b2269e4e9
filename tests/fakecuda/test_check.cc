// The checker on traces that are written by hand, so that nothing but it is tested.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fakecuda/private_world.h"

namespace fakecuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using What = Finding::What;

constexpr u64 kMemory = 7;
constexpr auto kMark = static_cast<u64>(KeyKind::kMark);

class Check : public ::testing::Test {
 protected:
  Check() {
    host_ = world_->new_agent(0, AgentKind::kHost, 0, 0);
    one_ = world_->new_agent(0, AgentKind::kStream, 0, 1);
    two_ = world_->new_agent(0, AgentKind::kStream, 0, 2);
  }
  void read(u32 agent, u64 from, u64 bytes) {
    world_->append(Kind::kAccess, agent, kMemory, from, bytes);
  }
  void write(u32 agent, u64 from, u64 bytes) {
    world_->append(Kind::kAccess, agent, kMemory, from | kWriteBit, bytes);
  }
  void release(u32 agent, u64 key) { world_->append(Kind::kRelease, agent, kMark, key); }
  void acquire(u32 agent, u64 key) { world_->append(Kind::kAcquire, agent, kMark, key); }
  // What the one has done before stands before what the other does next.
  void hand_over(u32 from, u32 to, u64 key) {
    release(from, key);
    acquire(to, key);
  }
  void enqueue(u64 operation) { world_->append(Kind::kEnqueue, host_, operation); }
  void execute(u32 agent, u64 operation) { world_->append(Kind::kExecute, agent, operation); }
  void free_memory() { world_->append(Kind::kFree, host_, kMemory); }
  std::vector<What> found() {
    std::vector<What> kinds;
    for (const Finding& finding : findings_ = world_.findings()) kinds.push_back(finding.what);
    return kinds;
  }

  PrivateWorld world_;
  std::vector<Finding> findings_;
  u32 host_ = 0;
  u32 one_ = 0;
  u32 two_ = 0;
};

TEST_F(Check, AnEmptyTraceIsClean) { EXPECT_THAT(found(), IsEmpty()); }

TEST_F(Check, AccessesOfOneAgentAreInOrder) {
  write(one_, 0, 8);
  read(one_, 0, 8);
  write(one_, 0, 8);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Check, UnorderedAccessesRaceByTheOrderTheyCameIn) {
  write(one_, 0, 8);
  read(two_, 0, 8);
  write(one_, 0, 8);
  EXPECT_THAT(found(), ElementsAre(What::kReadAfterWrite, What::kWriteAfterRead));
}

TEST_F(Check, TwoReadsDoNotRace) {
  read(one_, 0, 8);
  read(two_, 0, 8);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Check, EveryReadBeforeAWriteCounts) {
  read(one_, 0, 8);
  read(two_, 0, 8);
  hand_over(two_, host_, 1);
  write(host_, 0, 8);  // knows of the second read, not of the first
  EXPECT_THAT(found(), ElementsAre(What::kWriteAfterRead));
  EXPECT_THAT(findings_[0].first.agent, ::testing::HasSubstr("stream 1"));
}

TEST_F(Check, OnlyTheOverlapRaces) {
  write(one_, 0, 100);
  write(two_, 100, 100);
  write(two_, 60, 10);
  EXPECT_THAT(found(), ElementsAre(What::kWriteAfterWrite));
  EXPECT_EQ(findings_[0].offset, 60U);
  EXPECT_EQ(findings_[0].bytes, 10U);
}

TEST_F(Check, AReleaseOrdersOnlyWhatCameBeforeIt) {
  write(one_, 0, 8);
  release(one_, 1);
  write(one_, 8, 8);
  acquire(two_, 1);
  read(two_, 0, 8);
  read(two_, 8, 8);
  EXPECT_THAT(found(), ElementsAre(What::kReadAfterWrite));
  EXPECT_EQ(findings_[0].offset, 8U);
}

TEST_F(Check, OrderIsTransitive) {
  write(one_, 0, 8);
  hand_over(one_, host_, 1);
  hand_over(host_, two_, 2);
  write(two_, 0, 8);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Check, AnOperationKnowsWhatItsHostKnewWhenItWasEnqueued) {
  write(one_, 0, 8);
  enqueue(5);  // too early
  hand_over(one_, host_, 1);
  enqueue(6);
  execute(two_, 5);
  read(two_, 0, 8);
  execute(two_, 6);
  read(two_, 0, 8);
  EXPECT_THAT(found(), ElementsAre(What::kReadAfterWrite));
  EXPECT_EQ(findings_[0].times, 1U);
}

TEST_F(Check, WaitingForNothingIsFound) {
  acquire(one_, 99);
  EXPECT_THAT(found(), ElementsAre(What::kOrphanWait));
}

TEST_F(Check, AWordsWaitIsOrderedByTheFirstWriteThatAnswersIt) {
  write(one_, 0, 8);
  world_->append(Kind::kWriteWord, one_, kMemory, 64, 1);
  write(one_, 8, 8);
  world_->append(Kind::kWriteWord, one_, kMemory, 64, 2);
  world_->append(Kind::kWaitWord, two_, kMemory, 64, 1);  // it may have seen the 2
  read(two_, 0, 8);
  read(two_, 8, 8);
  EXPECT_THAT(found(), ElementsAre(What::kReadAfterWrite));
  EXPECT_EQ(findings_[0].offset, 8U);
}

TEST_F(Check, FreeingRacesWithUnorderedAccess) {
  read(one_, 16, 8);
  free_memory();
  EXPECT_THAT(found(), ElementsAre(What::kWriteAfterRead));
}

TEST_F(Check, AccessAfterFreeingIsFound) {
  free_memory();
  enqueue(5);
  execute(one_, 5);
  read(one_, 16, 8);
  EXPECT_THAT(found(), ElementsAre(What::kUseAfterFree));
}

TEST_F(Check, TheEndOfAProcessOrdersAllThatItDid) {
  const u32 other = world_->new_agent(1, AgentKind::kStream, 0, 1);
  write(other, 0, 8);
  world_->append(Kind::kExit, host_, 1);
  write(host_, 0, 8);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Check, AGapThatAKilledProcessLeftIsPassedOver) {
  world_->layout().records_used += 1;
  write(one_, 0, 8);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(Check, EqualFindingsAreOneWithACount) {
  for (int i = 0; i < 3; ++i) {
    write(one_, 0, 8);
    read(two_, 0, 8);
  }
  EXPECT_THAT(found(), ElementsAre(What::kReadAfterWrite, What::kWriteAfterRead));
  EXPECT_EQ(findings_[0].times, 3U);
}

}  // namespace
}  // namespace fakecuda
