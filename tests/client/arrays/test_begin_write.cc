// How a write comes by a slot, and what it leaves behind where it does not, on fakes.
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "client/arrays/begin_write.h"
#include "client/arrays/not_now.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/begin_write_test.h"
#include "tests/support/eventually.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using testing::BeginWriteTest;
using testing::eventually;
using ::testing::HasSubstr;
using wire::ErrorCode;

TEST_F(BeginWriteTest, WhoHoldsTheSlotsIsTold) {
  grant_ownership();
  publish_next();
  const std::uint32_t held = 1 - attempt.slot;
  read_elsewhere(held);
  control->on_holders = [] {
    Holder holder;
    holder.session = 4;
    holder.pid = 4242;
    holder.command = "plot.py";
    holder.versions = {7};
    return std::vector<Holder>{holder};
  };
  const auto status = begin();
  EXPECT_EQ(wire::code_of(status), ErrorCode::kNoFreeSlot);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4242 (plot.py) reads version 7"));
  expect_nothing_begun();
  release_elsewhere(held);
  publish_next();
}

TEST_F(BeginWriteTest, WhoSkipsAVersionAsksForNoHolders) {
  grant_ownership();
  publish_next();
  read_elsewhere(1 - attempt.slot);
  const std::uint64_t calls = control->calls();
  EXPECT_EQ(wire::code_of(begin(0ns, IfNoSlot::kSkip)), ErrorCode::kNoFreeSlot);
  EXPECT_EQ(control->calls(), calls);
  EXPECT_EQ(attempt.outcome, WriteOutcome::kNoFreeSlot);
  expect_nothing_begun();
}

TEST_F(BeginWriteTest, ASlotThatIsReleasedEndsTheWait) {
  grant_ownership();
  publish_next();
  const std::uint32_t held = 1 - attempt.slot;
  read_elsewhere(held);
  std::thread reader([&] {
    auto& own = row<wire::WriterRow>(kOwnWriter);
    while (own.wanted.load() == 0) std::this_thread::yield();
    auto& other = row<wire::ReaderRow>(kReader);
    --other.holds()[held];
    ++other.release_count;
    wire::futex_wake_all(other.release_count);
  });
  EXPECT_TRUE(begin(60s).ok());
  reader.join();
  array->end_write(attempt.slot, attempt.version, false);
}

// What can end the wait wakes it, so that it need not look by itself.
TEST_F(BeginWriteTest, AWaitForASlotSleepsUntilSomethingHappens) {
  grant_ownership();
  publish_next();
  const std::uint32_t held = 1 - attempt.slot;
  read_elsewhere(held);
  files->watched = true;
  std::thread reader([&] {
    EXPECT_TRUE(eventually([&] { return files->watches > 0; }));
    release_elsewhere(held);
    auto& count = row<wire::ReaderRow>(kReader).release_count;
    ++count;
    wire::futex_wake_all(count);
  });
  EXPECT_TRUE(begin(60s).ok());
  reader.join();
  array->end_write(attempt.slot, attempt.version, false);
}

TEST_F(BeginWriteTest, AWaitForAnotherThreadsWriteSleepsUntilSomethingHappens) {
  grant_ownership();
  files->watched = true;
  std::thread other([&] {
    ASSERT_TRUE(array->writing().enter());
    EXPECT_TRUE(eventually([&] { return files->watches > 0; }));
    array->writing().leave();
  });
  while (!array->writing().entered()) std::this_thread::yield();
  EXPECT_TRUE(begin(60s).ok());
  other.join();
  array->end_write(attempt.slot, attempt.version, false);
}

TEST_F(BeginWriteTest, WaitsForTheWriteOfAnotherThread) {
  grant_ownership();
  std::thread([&] { ASSERT_TRUE(array->writing().enter()); }).join();
  const auto status = begin(1ms);
  EXPECT_EQ(wire::code_of(status), ErrorCode::kTimeout);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is under way in this process"));
  array->writing().leave();
  publish_next();
}

// Who has to be woken comes to his turn beside a thread that begins again at once.
TEST_F(BeginWriteTest, WaitsForNoMoreThanAFewWritesOfAnotherThread) {
  grant_ownership();
  std::atomic<bool> had{false};
  int writes_meanwhile = 0;
  publish_next();
  ASSERT_TRUE(begin().ok());
  std::thread waiting([&] {
    WriteAttempt mine;
    WaitLimit within = limit(60s);
    EXPECT_TRUE(begin_write(*array, within, mine).ok());
    had = true;
    array->end_write(mine.slot, mine.version, true);
  });
  EXPECT_TRUE(eventually([&] { return array->writing().has_waiters(); }));
  for (; !had; ++writes_meanwhile) {
    array->end_write(attempt.slot, attempt.version, true);
    ASSERT_TRUE(begin(60s).ok());
  }
  array->end_write(attempt.slot, attempt.version, true);
  waiting.join();
  EXPECT_LT(writes_meanwhile, 1000);
}

TEST_F(BeginWriteTest, RefusesAtOnceToWaitForTheWriteOfItsOwnThread) {
  grant_ownership();
  ASSERT_TRUE(begin().ok());
  WriteAttempt second;
  WaitLimit within = limit(60s);
  const auto status = begin_write(*array, within, second);
  EXPECT_EQ(wire::code_of(status), ErrorCode::kBusy);
  EXPECT_THAT(std::string(status.message()), HasSubstr("this thread itself"));
  array->end_write(attempt.slot, attempt.version, true);
  publish_next();
}

TEST_F(BeginWriteTest, AnArrayThatIsClosedInsideOfItsWriteIsClosedRatherThanBusy) {
  grant_ownership();
  ASSERT_TRUE(begin().ok());
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  WriteAttempt second;
  WaitLimit within = limit(60s);
  EXPECT_EQ(wire::code_of(begin_write(*array, within, second)), ErrorCode::kClosed);
  array->end_write(attempt.slot, attempt.version, false);
}

TEST_F(BeginWriteTest, AWithdrawnArrayIsNotWritten) {
  grant_ownership();
  publish_next();
  server::set_withdrawn(board());
  EXPECT_EQ(wire::code_of(begin(10s)), ErrorCode::kWithdrawn);
  EXPECT_FALSE(array->writing().entered());
}

TEST_F(BeginWriteTest, AClosedArrayIsLeftByTheWriteThatKeptItsCloseFromThat) {
  ASSERT_TRUE(array->writing().enter());
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_FALSE(array->left()) << "a write may have begun";
  array->writing().leave();
  EXPECT_EQ(wire::code_of(begin()), ErrorCode::kClosed);
  EXPECT_TRUE(array->left());
}

TEST_F(BeginWriteTest, NothingCannotBeUpdated) {
  grant_ownership();
  ASSERT_TRUE(begin().ok());
  WaitLimit within = limit();
  EXPECT_EQ(wire::code_of(copy_current(*array, within, attempt)), ErrorCode::kInvalidArgument);
  expect_nothing_begun();
}

TEST_F(BeginWriteTest, AnUpdateBeginsWithTheCurrentBytes) {
  grant_ownership();
  ASSERT_TRUE(begin().ok());
  array->write_data(attempt.slot)[63] = std::byte{7};
  array->end_write(attempt.slot, attempt.version, true);
  const std::uint32_t current = attempt.slot;
  ASSERT_TRUE(begin().ok());
  WaitLimit within = limit();
  ASSERT_TRUE(copy_current(*array, within, attempt).ok());
  EXPECT_NE(attempt.slot, current);
  EXPECT_EQ(array->write_data(attempt.slot)[63], std::byte{7});
  array->end_write(attempt.slot, attempt.version, false);
}

TEST_F(BeginWriteTest, ANumberForAReplicaKeepsOthersFromWritingHere) {
  grant_ownership();
  publish_next();
  WaitLimit within = limit();
  ASSERT_TRUE(claim_number(*array, within, false).ok());
  const auto other = std::async(std::launch::async, [&] { return begin(); }).get();
  EXPECT_EQ(wire::code_of(other), ErrorCode::kTimeout);
  EXPECT_EQ(wire::code_of(begin(60s)), ErrorCode::kBusy);
  array->end_number();
  publish_next();
  EXPECT_EQ(attempt.version, 2U) << "nobody has used it";
  ASSERT_TRUE(claim_number(*array, within, false).ok());
  array->writing().slot_writer()->use_number(3, false);
  array->end_number();
  publish_next();
  EXPECT_EQ(attempt.version, 4U) << "its number is not given again";
}

TEST_F(BeginWriteTest, WhoOnlyCopiesIsNoWriter) {
  grant_ownership();
  const auto copy = [&](std::uint64_t number) {
    WaitLimit within = limit();
    const auto begun = begin_write(*array, within, attempt, IfNoSlot::kExplain, {.copied = number});
    if (begun.ok()) array->end_write(attempt.slot, attempt.version, true);
    return begun;
  };
  ASSERT_TRUE(copy(7).ok());
  EXPECT_EQ(attempt.version, 7U);
  EXPECT_FALSE(array->has_writer());
  ASSERT_TRUE(copy(9).ok());
  EXPECT_FALSE(array->has_writer());
  EXPECT_TRUE(is_not_now(copy(9))) << "that number has been used here";
  publish_next();
  EXPECT_EQ(attempt.version, 10U);
  EXPECT_TRUE(array->has_writer());
  ASSERT_TRUE(copy(12).ok());
  EXPECT_TRUE(array->has_writer()) << "it is one that copies, too";
  control->on_acquire_writer = [] {  // it has it already
    return WriterAnswer{WriterAnswer::State::kGranted, kOwnWriter, {}, 0};
  };
  WaitLimit within = limit();
  HeldOwnership held(*array);
  ASSERT_TRUE(held.acquire(within).ok());
  EXPECT_TRUE(array->has_writer());
}

TEST_F(BeginWriteTest, WhoHasTheTurnWritesAndOthersWait) {
  grant_ownership();
  {
    WaitLimit within = limit();
    HeldOwnership held(*array);
    ASSERT_TRUE(held.acquire(within).ok());
    EXPECT_EQ(wire::code_of(begin(1ms)), ErrorCode::kTimeout);
    ASSERT_TRUE(held.begin(within, attempt, IfNoSlot::kSkip, {.copied = 7}).ok());
    array->end_write(attempt.slot, attempt.version, true);
    EXPECT_FALSE(array->has_writer());
    ASSERT_TRUE(held.acquire(within).ok());
    EXPECT_TRUE(is_not_now(held.begin(within, attempt, IfNoSlot::kSkip, {.copied = 7})));
    publish_next();
    ASSERT_TRUE(held.acquire(within).ok());
  }
  expect_nothing_begun();
}

TEST_F(BeginWriteTest, AFlagOnTheBoardMakesNobodyAWriter) {
  grant_ownership();
  WaitLimit within = limit();
  ASSERT_TRUE(begin_write(*array, within, attempt, IfNoSlot::kExplain, {.copied = 7}).ok());
  array->end_write(attempt.slot, attempt.version, true);
  server::set_moving(board());
  EXPECT_FALSE(array->has_writer());
}

class BeginWriteInOneSlotTest : public BeginWriteTest {
 protected:
  BeginWriteInOneSlotTest() {
    array.reset();
    answer.spec.slots = answer.spec.max_slots = 1;
    answer.slots.resize(1);
    array = open();
  }
};

TEST_F(BeginWriteInOneSlotTest, WhatThisProcessItselfHoldsIsRefused) {
  grant_ownership();
  publish_next();
  const auto reader = array->reader(kNoInterrupts);
  ASSERT_TRUE(reader.ok()) << reader.status();
  server::add_subscriber(board(), board().subscribers.entries[0], kOwnReader);
  ASSERT_EQ((*reader)->acquire(0, 0).outcome, ReadOutcome::kAcquired);
  for (const auto timeout : {60s, 0s}) EXPECT_EQ(wire::code_of(begin(timeout)), ErrorCode::kBusy);
  EXPECT_EQ(wire::code_of(begin(0s, IfNoSlot::kSkip)), ErrorCode::kNoFreeSlot);
  array->end_read(0);
  publish_next();
}

class BeginWriteThatGrowsTest : public ::testing::Test, protected testing::ArrayWorld {
 protected:
  BeginWriteThatGrowsTest() : ArrayWorld(2, 3) {
    grant_ownership();
    publish();
    read_elsewhere(attempt.slot);
    publish();
    read_elsewhere(attempt.slot);
  }
  void publish() {
    ASSERT_TRUE(begin(IfNoSlot::kExplain).ok());
    array->end_write(attempt.slot, attempt.version, true);
  }
  absl::Status begin(IfNoSlot if_none) {
    WaitLimit within(owner->session(), 0, 0ns, 0ns);
    return begin_write(*array, within, attempt, if_none);
  }

  std::shared_ptr<OpenArray> array = open();
  WriteAttempt attempt;
};

TEST_F(BeginWriteThatGrowsTest, OneMoreSlotIsAskedFor) {
  control->on_add_slot = [this](std::uint32_t slots) {
    EXPECT_EQ(slots, 2U);
    server::add_slot(board(), array->layout(), {wire::FileId{2}, 128});
    return absl::OkStatus();
  };
  EXPECT_TRUE(begin(IfNoSlot::kExplain).ok());
  EXPECT_EQ(attempt.slot, 2U);
  array->write_data(attempt.slot)[0] = std::byte{1};
  array->end_write(attempt.slot, attempt.version, true);
}

TEST_F(BeginWriteThatGrowsTest, WhoSkipsVersionsDoesNotAskForItEachTime) {
  int asked = 0;
  control->on_add_slot = [&](std::uint32_t) {
    ++asked;
    return wire::make_error(ErrorCode::kQuotaExceeded, "the quota of uid 7 is used up");
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(wire::code_of(begin(IfNoSlot::kSkip)), ErrorCode::kNoFreeSlot);
  }
  EXPECT_EQ(asked, 1);
  const auto status = begin(IfNoSlot::kExplain);
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the quota of uid 7 is used up"));
}

}  // namespace
}  // namespace memlease::internal
