// How a write comes by writer ownership, and what it leaves behind where it does not, on fakes.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "client/session/wait_news.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/begin_write_test.h"
#include "tests/support/eventually.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using ::testing::HasSubstr;
using wire::ErrorCode;

class AcquireOwnershipTest : public testing::BeginWriteTest {
 protected:
  // The daemon's answer to who asks beside a writer: busy until the write has ended, then
  // ownership.
  WriterAnswer busy_until_the_write_ends(std::uint32_t ahead = 0, CountAt turn = {}) {
    const bool busy = row<wire::WriterRow>(kWriter).writing.load() != 0;
    if (!busy) server::set_writer(board(), kOwnWriter, false);
    const auto state = busy ? WriterAnswer::State::kBusy : WriterAnswer::State::kGranted;
    return WriterAnswer{state, kOwnWriter, kWriter, 0, ahead, turn};
  }
};

TEST_F(AcquireOwnershipTest, AsksForOwnershipOnce) {
  grant_ownership();
  publish_next();
  EXPECT_EQ(attempt.version, 1U);
  const std::uint64_t calls = control->calls();
  EXPECT_EQ(calls, 1U);
  publish_next();
  EXPECT_EQ(attempt.version, 2U);
  EXPECT_EQ(control->calls(), calls);
  expect_nothing_begun();
}

TEST_F(AcquireOwnershipTest, FetchesWhatAWriterNeedsAtOnce) {
  offer_ownership();
  kept.clear();
  files->fetches = 0;
  publish_next();
  EXPECT_EQ(files->fetches, 1);
}

// With what else a writer needs, and then by itself.
TEST_F(AcquireOwnershipTest, AFormerWritersRowThatHasGoneIsAskedForOnceMore) {
  offer_ownership();
  unmap();
  files->missing = {wire::to_int(kWriter.file)};
  files->fetches = 0;
  EXPECT_EQ(wire::code_of(begin()), ErrorCode::kTimeout);
  EXPECT_EQ(files->fetches, 2);
  expect_nothing_begun();
}

TEST_F(AcquireOwnershipTest, GoesOnWithTheNumbersOfWhoeverOffersOwnership) {
  publish_elsewhere();
  offer_ownership();
  ASSERT_TRUE(begin().ok());
  EXPECT_EQ(attempt.version, 2U);
  EXPECT_EQ(attempt.slot, 0U) << "slot 1 has the current version";
  array->end_write(attempt.slot, attempt.version, false);
  EXPECT_EQ(*array->current_version(kNoInterrupts), 1U);
}

TEST_F(AcquireOwnershipTest, AnOfferThatHasExpiredIsAskedForAgain) {
  publish_elsewhere();
  offer_ownership();
  const auto confirm = control->on_confirm_writer;
  int tries = 0;
  control->on_confirm_writer = [&](std::uint64_t offer) {
    return ++tries == 1 ? wire::make_error(ErrorCode::kBusy, "it has expired") : confirm(offer);
  };
  ASSERT_TRUE(begin(10s).ok());
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(control->cancelled, 0);
  array->end_write(attempt.slot, attempt.version, false);
}

// An offer that nobody confirms ends by itself, and is asked for again.
TEST_F(AcquireOwnershipTest, AnInterruptEndsAFirstWriteAtEachFile) {
  publish_elsewhere();
  offer_ownership();
  unmap();
  int interrupts = 0;
  for (bool begun = false; !begun; ++interrupts) {
    files->answers = files->fetches + (interrupts == 0 ? 0 : 1);
    const auto status = begin_interrupted();
    begun = status.ok();
    if (begun) break;
    EXPECT_NE(interrupt_of(status), nullptr) << status;
    expect_nothing_begun();
  }
  EXPECT_EQ(interrupts, 1) << "the slots, its own row and that of who offers come at once";
  EXPECT_EQ(control->cancelled, 0) << "nobody waits for the daemon twice";
  EXPECT_EQ(attempt.version, 2U);
  array->end_write(attempt.slot, attempt.version, false);
}

TEST_F(AcquireOwnershipTest, TheDeadlineEndsAFirstWriteWhoseRowDoesNotCome) {
  grant_ownership();
  unmap();
  stop_files();
  const auto status = begin();
  EXPECT_EQ(wire::code_of(status), ErrorCode::kTimeout);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the daemon did not answer within 0 s"));
  EXPECT_EQ(control->cancelled, 0);
  expect_nothing_begun();
  go_on();
  publish_next();
}

TEST_F(AcquireOwnershipTest, AnInterruptEndsTheWaitForTheRowOfWhoeverWrites) {
  control->on_acquire_writer = [this] {
    files->answers = files->fetches + 1;  // the slots and its own row
    return WriterAnswer{WriterAnswer::State::kBusy, kOwnWriter, {}, 0};
  };
  unmap();
  EXPECT_NE(interrupt_of(begin_interrupted()), nullptr);
  expect_nothing_begun();
}

// The daemon may have heard it all the same: then ownership has come.
TEST_F(AcquireOwnershipTest, AnInterruptEndsTheConfirmationOfAnOffer) {
  for (const bool heard : {false, true}) {
    publish_elsewhere();
    offer_ownership();
    const auto offer = control->on_acquire_writer;
    control->on_acquire_writer = [this, offer] {
      control->stopped = true;
      return offer();
    };
    EXPECT_NE(interrupt_of(begin_interrupted()), nullptr);
    EXPECT_EQ(control->cancelled, 0);
    expect_nothing_begun();
    control->stopped = false;
    control->on_acquire_writer = offer;
    if (heard) {
      EXPECT_TRUE(control->on_confirm_writer(5).ok());
    }
    const std::uint64_t calls = control->calls();
    ASSERT_TRUE(begin().ok());
    EXPECT_EQ(control->calls() - calls, heard ? 0U : 2U);
    EXPECT_EQ(attempt.version, 2U);
    array->end_write(attempt.slot, attempt.version, false);
    server::set_writer(board(), kWriter, false);
  }
}

TEST_F(AcquireOwnershipTest, OwnershipThatDoesNotComeIsCancelledAndTold) {
  control->on_acquire_writer = [] {
    return WriterAnswer{WriterAnswer::State::kBusy, kOwnWriter, {}, 0};
  };
  const auto status = begin();
  EXPECT_EQ(wire::code_of(status), ErrorCode::kTimeout);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another process is in the middle"));
  EXPECT_EQ(control->cancelled, 1);
  expect_nothing_begun();
}

TEST_F(AcquireOwnershipTest, TheDaemonIsAskedAgainOnceTheWriterHasEndedItsWrite) {
  auto& writer = row<wire::WriterRow>(kWriter);
  writer.writing.store(1);
  server::set_moving(board());
  std::atomic<int> asked{0};
  control->on_acquire_writer = [&] {
    ++asked;
    return busy_until_the_write_ends();
  };
  files->watched = true;
  int asked_meanwhile = 0;
  std::thread other([&] {
    EXPECT_TRUE(eventually([&] { return files->watches > 0; }));
    asked_meanwhile = asked;
    wait_news.tell();  // this is no news of the writer's
    EXPECT_TRUE(eventually([&] { return files->watches > 1; }));
    writer.writing.store(0);
    ++writer.publish_count;
    wire::futex_wake_all(writer.publish_count);
  });
  EXPECT_TRUE(begin(60s).ok());
  other.join();
  EXPECT_EQ(asked, asked_meanwhile + 1);
  array->end_write(attempt.slot, attempt.version, false);
}

// Who asks before the present writer has begun: nobody has told this one to wake whoever waits.
TEST_F(AcquireOwnershipTest, AWriterWhoseEndWakesNobodyIsAskedForAgain) {
  auto& writer = row<wire::WriterRow>(kWriter);
  ASSERT_TRUE(array->map_writer_row(kWriter, kNoInterrupts).ok());
  int asked = 0;
  control->on_acquire_writer = [&] {
    const auto state = ++asked == 1 ? WriterAnswer::State::kBusy : WriterAnswer::State::kGranted;
    writer.writing.store(1);
    if (asked > 1) server::set_writer(board(), kOwnWriter, false);
    return WriterAnswer{state, kOwnWriter, kWriter, 0};
  };
  EXPECT_TRUE(begin(5s).ok());
  array->end_write(attempt.slot, attempt.version, false);
}

// The daemon would keep a place for nobody, and the writer's next write would have to ask.
TEST_F(AcquireOwnershipTest, AnInterruptOfTheSleepCancels) {
  row<wire::WriterRow>(kWriter).writing.store(1);
  server::set_moving(board());
  ASSERT_TRUE(array->map_writer_row(kWriter, kNoInterrupts).ok());
  control->on_acquire_writer = [] {
    return WriterAnswer{WriterAnswer::State::kBusy, kOwnWriter, kWriter, 0};
  };
  EXPECT_NE(interrupt_of(begin_interrupted()), nullptr);
  EXPECT_EQ(control->cancelled, 1);
  expect_nothing_begun();
}

TEST_F(AcquireOwnershipTest, AWriterThatIsNotAtWorkIsAskedForAgainAndAgain) {
  int asked = 0;
  control->on_acquire_writer = [&] {
    if (++asked > 4) server::set_writer(board(), kOwnWriter, false);
    const auto state = asked > 4 ? WriterAnswer::State::kGranted : WriterAnswer::State::kBusy;
    return WriterAnswer{state, kOwnWriter, kWriter, 0};
  };
  EXPECT_TRUE(begin(60s).ok()) << "its work on a GPU goes on, or another one has an offer";
  array->end_write(attempt.slot, attempt.version, false);
}

TEST_F(AcquireOwnershipTest, ASilentDaemonIsNotAskedToCancel) {
  control->on_acquire_writer = [this]() -> absl::StatusOr<WriterAnswer> {
    control->is_silent = true;
    return wire::make_error(ErrorCode::kTimeout, "it does not answer");
  };
  EXPECT_EQ(wire::code_of(begin(10s)), ErrorCode::kTimeout);
  EXPECT_EQ(control->cancelled, 0);
  expect_nothing_begun();
}

TEST_F(AcquireOwnershipTest, ARefusalOfOwnershipIsTold) {
  control->on_acquire_writer = []() -> absl::StatusOr<WriterAnswer> {
    return wire::make_error(ErrorCode::kDenied, "not yours");
  };
  EXPECT_EQ(wire::code_of(begin(10s)), ErrorCode::kDenied);
  expect_nothing_begun();
}

TEST_F(AcquireOwnershipTest, AnArrayThatTheDaemonHasNoMoreIsNamed) {
  control->on_acquire_writer = []() -> absl::StatusOr<WriterAnswer> {
    return wire::make_error(ErrorCode::kWithdrawn, "the array has been withdrawn");
  };
  const auto status = begin(10s);
  EXPECT_EQ(wire::code_of(status), ErrorCode::kWithdrawn);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'a' has been withdrawn"));
}

// Not on what the writer's end changes, which would wake all of them.
TEST_F(AcquireOwnershipTest, WhoComesLaterSleepsUntilItsTurn) {
  const wire::FileRange turn{array->facts().board_record.file, 1024};
  auto& count = *reinterpret_cast<wire::HalfWord*>(page(turn.file) + turn.offset);
  grant_ownership();
  const auto grant = control->on_acquire_writer;
  std::atomic<bool> its_turn{false};
  std::atomic<int> asked{0};
  control->on_acquire_writer = [&]() -> absl::StatusOr<WriterAnswer> {
    ++asked;
    if (its_turn.load()) return grant();
    return WriterAnswer{WriterAnswer::State::kBusy, kOwnWriter, kWriter, 0, 3, {turn, 0}};
  };
  std::thread daemon([&] {
    EXPECT_TRUE(eventually([&] { return asked.load() == 1; }));
    its_turn.store(true);
    ++count;
    wire::futex_wake_all(count);
  });
  EXPECT_TRUE(begin(60s).ok());
  daemon.join();
  EXPECT_EQ(asked.load(), 2);
  array->end_write(attempt.slot, attempt.version, false);
}

// Not even the next but one, who looks whether the next one is stopped.
TEST_F(AcquireOwnershipTest, WhoComesLaterAsksNobodyWhileALongWriteGoesOn) {
  const wire::FileRange turn{array->facts().board_record.file, 1024};
  auto& writer = row<wire::WriterRow>(kWriter);
  writer.writing.store(1);
  server::set_moving(board());
  std::atomic<int> asked{0};
  control->on_acquire_writer = [&] {
    ++asked;
    return busy_until_the_write_ends(1, {turn, 0});
  };
  files->watched = true;
  int asked_meanwhile = 0;
  std::thread other([&] {
    EXPECT_TRUE(eventually([&] { return files->watches > 0; })) << "it sleeps for long";
    asked_meanwhile = asked;
    writer.writing.store(0);
    ++writer.publish_count;
    wire::futex_wake_all(writer.publish_count);
  });
  EXPECT_TRUE(begin(60s).ok());
  other.join();
  EXPECT_LE(asked_meanwhile, 2) << "once more when the writer's row was there";
  EXPECT_EQ(asked, asked_meanwhile + 1);
  array->end_write(attempt.slot, attempt.version, false);
}

TEST_F(AcquireOwnershipTest, WhoDoesNotGetItsTurnInTimeIsToldOfTheOthers) {
  control->on_acquire_writer = [this] {
    const wire::FileRange turn{array->facts().board_record.file, 1024};
    return WriterAnswer{WriterAnswer::State::kBusy, kOwnWriter, kWriter, 0, 3, {turn, 0}};
  };
  const auto status = begin(10ms);
  EXPECT_EQ(wire::code_of(status), ErrorCode::kTimeout);
  EXPECT_THAT(std::string(status.message()), HasSubstr("come first: 3"));
  EXPECT_EQ(control->cancelled, 1) << "it waits no longer";
  expect_nothing_begun();
}

}  // namespace
}  // namespace memlease::internal
