// When an array is left, and by whom, on fakes.
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "wire/board.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class OpenArrayTest : public ::testing::Test, protected testing::ArrayWorld {
 protected:
  // A lease of version 1, which another process has published.
  static std::uint32_t lease(OpenArray& array) {
    EXPECT_TRUE(array.map_writer_row(kWriter, kNoInterrupts).ok());
    const auto reader = array.reader(kNoInterrupts);
    EXPECT_TRUE(reader.ok()) << reader.status();
    const ReadAttempt attempt = (*reader)->acquire(0, 0);
    EXPECT_EQ(attempt.outcome, ReadOutcome::kAcquired);
    return attempt.slot;
  }
};

TEST_F(OpenArrayTest, IsOpenedByOneFetch) {
  kept.clear();
  files->fetches = 0;
  const auto array = open();
  EXPECT_EQ(files->fetches, 1);
}

TEST_F(OpenArrayTest, ThatWasSubscribedToAsItWasOpenedIsReadWithoutACallOrAFetch) {
  publish_elsewhere();
  answer.subscribed = Subscribed{kOwnReader};
  answer.writer = kWriter;
  kept.clear();
  files->fetches = 0;
  const auto array = open();
  const auto reader = array->reader(kNoInterrupts);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const ReadAttempt attempt = (*reader)->acquire(0, 0);
  EXPECT_EQ(attempt.outcome, ReadOutcome::kAcquired);
  EXPECT_EQ(attempt.version, 1U);
  EXPECT_EQ(files->fetches, 1);
  EXPECT_EQ(control->calls(), 0U);
  array->end_read(attempt.slot);
}

// Who reads it is told why, and may find them there the next time.
TEST_F(OpenArrayTest, IsOpenedThoughItsRowsAreNotToBeHadJustNow) {
  publish_elsewhere();
  answer.subscribed = Subscribed{kOwnReader};
  answer.writer = kWriter;
  kept.clear();
  files->missing = {wire::to_int(kOwnReader.file), wire::to_int(kWriter.file)};
  const auto array = open();
  EXPECT_EQ(wire::code_of(array->reader(kNoInterrupts).status()), wire::ErrorCode::kNotFound);
  files->missing.clear();
  array->end_read(lease(*array));
}

// A reader that spins fetches the line of a slot that it does not hold, of whatever number a writer
// says, and also after another thread has left the array.
TEST_F(OpenArrayTest, LooksForLikelyBytesWhereNoneAreMapped) {
  auto array = open();
  ASSERT_TRUE(array->reader(kNoInterrupts).ok());
  EXPECT_EQ(array->likely_data(0), array->read_data(0));
  EXPECT_EQ(array->likely_data(wire::kMaxSlots - 1), nullptr);
  const std::byte* const mapped_at = array->likely_data(0);
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_TRUE(array->left());
  EXPECT_EQ(array->likely_data(0), mapped_at);
}

TEST_F(OpenArrayTest, IsLeftByACallWhenItsLastHandleIsClosed) {
  auto array = open();
  ASSERT_TRUE(array->membership().reopen());
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_THAT(control->left, IsEmpty());
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_THAT(control->left, ElementsAre(2));
  EXPECT_TRUE(array->left());
  EXPECT_FALSE(array->membership().reopen());
  array.reset();
  EXPECT_THAT(owner->departed, IsEmpty());
}

TEST_F(OpenArrayTest, IsLeftTogetherWithOthersWhereItsHandleIsClosedSo) {
  const auto array = open();
  std::vector<Departure> departures;
  EXPECT_TRUE(array->close_handle(departures, kNoInterrupts).ok());
  EXPECT_TRUE(array->left());
  EXPECT_EQ(control->calls(), 0U);
  ASSERT_EQ(departures.size(), 1U);
  EXPECT_EQ(departures[0].array, array->facts().id);
  EXPECT_EQ(departures[0].opens, 1U);
}

TEST_F(OpenArrayTest, IsLeftLaterByItsOwnerWhereItDies) {
  auto array = open();
  array.reset();
  EXPECT_THAT(owner->departed, SizeIs(1));
  EXPECT_EQ(control->calls(), 0U);
}

TEST_F(OpenArrayTest, ThatCouldNotBeMappedIsItsCallersToLeave) {
  files->refuses = true;
  EXPECT_FALSE(try_open().ok());
  EXPECT_THAT(owner->departed, IsEmpty());
  EXPECT_THAT(control->left, IsEmpty());
}

TEST_F(OpenArrayTest, AnInterruptEndsItsOpeningAtEachFile) {
  unmap();
  int interrupts = 0;
  for (bool opened = false; !opened; ++interrupts) {
    files->answers = files->fetches + interrupts;
    const auto array = try_open([] { return interrupted(std::make_exception_ptr(1)); });
    opened = array.ok();
    if (!opened) {
      EXPECT_NE(interrupt_of(array.status()), nullptr) << array.status();
    }
  }
  EXPECT_EQ(interrupts - 1, 1) << "its board and its segment come at once";
  EXPECT_THAT(owner->departed, SizeIs(1)) << "of the array that was opened alone";
}

TEST_F(OpenArrayTest, AnInterruptEndsItsOpeningOnAGpu) {
  answer.spec.device = "GPU-1";
  answer.events = {kEvents, 0};
  control->stopped = true;
  const auto array = try_open([] { return interrupted(std::make_exception_ptr(1)); });
  EXPECT_NE(interrupt_of(array.status()), nullptr) << array.status();
  control->stopped = false;
  EXPECT_TRUE(try_open().ok());
}

TEST_F(OpenArrayTest, ASilentDaemonIsNotCalledToLeaveIt) {
  const auto array = open();
  control->is_silent = true;
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_THAT(control->left, IsEmpty());
  EXPECT_THAT(owner->departed, SizeIs(1));
  EXPECT_TRUE(array->left());
}

TEST_F(OpenArrayTest, IsClosedAndLeftThoughTheCallIsInterrupted) {
  const auto array = open();
  control->answers_leave = false;
  const auto status = array->close_handle([] { return interrupted(std::make_exception_ptr(1)); });
  EXPECT_NE(interrupt_of(status), nullptr);
  EXPECT_TRUE(array->closed());
  EXPECT_TRUE(array->left());
  EXPECT_THAT(control->left, ElementsAre(1));
}

TEST_F(OpenArrayTest, ThatIsLeftBehindAnInterruptedCallIsLeftLater) {
  const std::vector<Departure> departures(wire::kMostDepartures + 1, {wire::ArrayId{1}, 1, 0});
  control->answers_leave = false;
  const auto status = owner->leave(departures, [&] {
    control->is_silent = true;
    return interrupted(std::make_exception_ptr(1));
  });
  EXPECT_NE(interrupt_of(status), nullptr);
  EXPECT_EQ(control->calls(), 1U);
  EXPECT_THAT(control->left, SizeIs(wire::kMostDepartures));
  EXPECT_THAT(owner->departed, SizeIs(wire::kMostDepartures + 1)) << "nobody knows what it heard";
}

// Whether the daemon refuses it for now or has not answered, or a connection was cut that is made
// again: with the number that it had.
TEST_F(OpenArrayTest, WhatTheDaemonHasNotDoneIsToldAgainOnce) {
  const auto array = open();
  control->answers_leave = false;
  const auto busy = [] { return wire::make_error(wire::ErrorCode::kBusy, "too many calls"); };
  EXPECT_TRUE(array->close_handle(busy).ok());
  const auto tell_again = [&](InterruptCheck answers) {
    const auto again = std::exchange(owner->departed, {});
    EXPECT_TRUE(owner->leave(again, answers).ok());
  };
  ASSERT_THAT(owner->departed, SizeIs(1));
  tell_again([] { return wire::make_error(wire::ErrorCode::kDaemonLost, "the connection ended"); });
  ASSERT_THAT(owner->departed, SizeIs(1));
  control->answers_leave = true;
  for (int i = 0; i < 2; ++i) tell_again(kNoInterrupts);
  EXPECT_THAT(control->left_numbers, ElementsAre(1, 1, 1));
  EXPECT_EQ(control->left_answered_below, 1U);
  EXPECT_THAT(owner->departed, IsEmpty());
}

TEST_F(OpenArrayTest, WhatASessionHasThatHasEndedIsNotToldAgain) {
  const auto array = open();
  control->answers_leave = false;
  const auto ended = [&] {
    control->has_ended = true;
    return wire::make_error(wire::ErrorCode::kDaemonLost, "the session has ended");
  };
  EXPECT_TRUE(array->close_handle(ended).ok());
  EXPECT_THAT(owner->departed, IsEmpty());
}

// A user's check may fork: the locks are the parent's there, and what it leaves, too.
TEST_F(OpenArrayTest, AChildThatIsForkedInTheCallToLeaveTellsNothing) {
  const std::vector<Departure> departures(wire::kMostDepartures + 1, {wire::ArrayId{1}, 1, 0});
  control->answers_leave = false;
  const auto forked = [] { return wire::make_error(wire::ErrorCode::kForkedClient, "forked"); };
  EXPECT_TRUE(owner->leave(departures, forked).ok());
  EXPECT_EQ(control->calls(), 1U);
  EXPECT_THAT(owner->departed, IsEmpty());
}

TEST_F(OpenArrayTest, ThatTheDaemonDoesNotKnowIsClosedWithoutAnError) {
  const auto array = open();
  control->answers_leave = false;
  const auto unknown = [] {
    return wire::make_error(wire::ErrorCode::kInvalidArgument, "unknown");
  };
  EXPECT_TRUE(array->close_handle(unknown).ok());
  EXPECT_TRUE(array->left());
  EXPECT_THAT(owner->departed, IsEmpty());
}

TEST_F(OpenArrayTest, ThatIsClosedIsLeftAfterItsLastLeaseByALaterCall) {
  publish_elsewhere();
  const auto array = open();
  const std::uint32_t first = lease(*array);
  const std::uint32_t second = lease(*array);
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  EXPECT_THAT(control->left, IsEmpty());
  array->end_read(first);
  array->leave_if_due();
  EXPECT_THAT(control->left, IsEmpty());
  array->end_read(second);
  EXPECT_THAT(control->left, IsEmpty());
  EXPECT_TRUE(owner->take_release());
  array->leave_if_due();
  EXPECT_THAT(control->left, ElementsAre(1));
}

TEST_F(OpenArrayTest, ThatIsWithdrawnIsLeftAfterItsLastLeaseByALaterCall) {
  publish_elsewhere();
  const auto array = open();
  const std::uint32_t slot = lease(*array);
  board().writer.fetch_or(wire::kWriterWithdrawn);
  EXPECT_TRUE(array->withdrawn());
  array->end_read(slot);
  EXPECT_THAT(control->left, IsEmpty());
  EXPECT_TRUE(owner->take_release());
  array->leave_if_due();
  EXPECT_THAT(control->left, ElementsAre(1));
}

TEST_F(OpenArrayTest, TheEndOfALeaseCallsNobodyAtOtherTimes) {
  publish_elsewhere();
  const auto array = open();
  array->end_read(lease(*array));
  EXPECT_EQ(owner->handles_asked, 0);
  EXPECT_EQ(control->calls(), 1U);  // its subscription
}

TEST_F(OpenArrayTest, AReadThatCameBehindACloseGivesItsHoldBack) {
  publish_elsewhere();
  const auto array = open();
  array->end_read(lease(*array));
  EXPECT_TRUE(array->close_handle(kNoInterrupts).ok());
  const ReadAttempt attempt = array->read_at_once(0, 0);
  EXPECT_NE(attempt.outcome, ReadOutcome::kAcquired);
  EXPECT_FALSE(array->in_use());
}

TEST_F(OpenArrayTest, AReadAtOnceSaysWhetherItHasLooked) {
  publish_elsewhere();
  const auto array = open();
  const auto outcome = [&](std::uint64_t version, std::uint64_t newer_than) {
    EXPECT_TRUE(array->usable().ok());  // this second's look at the daemon
    return array->read_at_once(version, newer_than).outcome;
  };
  EXPECT_EQ(outcome(0, 1), ReadOutcome::kUntried);  // it has no row yet
  array->end_read(lease(*array));
  EXPECT_EQ(outcome(0, 1), ReadOutcome::kNotYet);
  EXPECT_EQ(outcome(2, 0), ReadOutcome::kNotYet);
  board().elsewhere.store(1);
  EXPECT_EQ(outcome(0, 1), ReadOutcome::kUntried);
}

TEST_F(OpenArrayTest, ItsVersionIsThatOfTheBoardsWriter) {
  const auto array = open();
  EXPECT_EQ(*array->current_version(kNoInterrupts), 0U);
  publish_elsewhere();
  EXPECT_EQ(*array->current_version(kNoInterrupts), 1U);
  EXPECT_EQ(array->known_version(), 1U);
  board().writer.fetch_or(wire::kWriterWithdrawn);
  EXPECT_EQ(wire::code_of(array->current_version(kNoInterrupts).status()),
            wire::ErrorCode::kWithdrawn);
}

TEST_F(OpenArrayTest, AnAddressOfItsBytesIsFoundWhileItIsOpen) {
  publish_elsewhere();
  auto array = open();
  ASSERT_TRUE(array->reader(kNoInterrupts).ok());
  EXPECT_TRUE(array->map_writer_row(kWriter, kNoInterrupts).ok());
  const std::byte* const second = array->read_data(1);
  const FaultTable::Place place = FaultTable::find(second + 63);
  EXPECT_STREQ(place.array, "a");
  EXPECT_EQ(place.slot, 1U);
  EXPECT_EQ(place.version, 1U);
  EXPECT_FALSE(place.for_writing);
  EXPECT_EQ(FaultTable::find(second + 64).array, nullptr);
  array.reset();
  EXPECT_EQ(FaultTable::find(second).array, nullptr);
}

}  // namespace
}  // namespace memlease::internal
