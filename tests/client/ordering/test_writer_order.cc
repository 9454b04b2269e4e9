// Writes of a GPU array run behind the version before and behind the reads of their slot.
#include <limits>

#include "client/ordering/writer_order.h"
#include "tests/client/ordering/ordering_world.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

class WriterOrderTest : public OrderingWorld {
 protected:
  SlotWriter& slots() { return world->writer(); }
  WriteAttempt begin() {
    const WriteAttempt attempt = world->begin();
    EXPECT_EQ(attempt.outcome, WriteOutcome::kReady);
    return attempt;
  }
  // A version whose work on `stream` goes on until resume().
  WriteAttempt publish_unfinished(Stream stream) {
    const WriteAttempt attempt = begin();
    EXPECT_TRUE(writer.collect(slots(), attempt.slot, kNoInterrupts).ok());
    gpu.stall(stream);
    EXPECT_TRUE(writer.record_write(attempt.slot, attempt.version, {stream, {}}, go_on).ok());
    slots().publish(attempt.slot, attempt.version);
    return attempt;
  }
  // Another process reads the newest version, and counts a read that its event is recorded behind.
  void read_elsewhere() {
    SlotReader& reader = world->reader(0);
    const ReadAttempt read = reader.acquire(0, 0);
    ASSERT_EQ(read.outcome, ReadOutcome::kAcquired);
    read_events = others.events_of({kReaderFile, 0}, 2, gpu, kNoInterrupts).value();
    ASSERT_TRUE(read_events[read.slot].record(kOther).ok());
    reader.count_read_fence(read.slot);
    reader.release(read.slot);
  }
  // As the reader has the page: mapped for itself, and registered for itself.
  MappingCache others_mappings{*files};
  ImportCache others{control, others_mappings, gpu};
  SharedEvents read_events;
  static absl::Status go_on() { return {}; }

  WriterOrder writer{*versions, *order, imports};
};

TEST_F(WriterOrderTest, AWriteRunsBehindTheCurrentVersion) {
  publish_unfinished(kOther);
  const WriteAttempt next = begin();
  ASSERT_TRUE(writer.collect(slots(), next.slot, kNoInterrupts).ok());
  EXPECT_FALSE(*writer.slot_free());
  ASSERT_TRUE(writer.stream_wait_slot(kOurs).ok());
  EXPECT_FALSE(idle(kOurs));
  gpu.resume();
  EXPECT_TRUE(*writer.slot_free());
  EXPECT_TRUE(idle(kOurs));
}

TEST_F(WriterOrderTest, AVersionIsCompleteWhereItsStreamIs) {
  const WriteAttempt written = publish_unfinished(kOurs);
  EXPECT_FALSE(*(*versions)[written.slot].complete());
  gpu.resume();
  EXPECT_TRUE(*(*versions)[written.slot].complete());
}

// Who leaves does not wait for the next writer's work.
TEST_F(WriterOrderTest, WhatAnotherProcessRecordsLaterIsNotOnesOwn) {
  const WriteAttempt written = publish_unfinished(kOurs);
  EXPECT_FALSE(versions->complete());
  gpu.resume();
  EXPECT_TRUE(versions->complete());
  auto page = others.event_page(kEvents, wire::FileKind::kEvents, gpu, kNoInterrupts).value();
  SharedEvents theirs = SharedEvents::in(std::move(page), kEventsOffset, 2, gpu).value();
  gpu.stall(kOther);
  ASSERT_TRUE(theirs[written.slot].record(kOther).ok());
  EXPECT_FALSE(*(*versions)[written.slot].complete());
  EXPECT_TRUE(versions->complete());
  gpu.resume();
}

TEST_F(WriterOrderTest, WithoutAStreamTheHostWaitsForTheDevice) {
  const WriteAttempt attempt = begin();
  ASSERT_TRUE(writer.collect(slots(), attempt.slot, kNoInterrupts).ok());
  ASSERT_TRUE(writer.record_write(attempt.slot, attempt.version, {}, go_on).ok());
  EXPECT_TRUE(*(*versions)[attempt.slot].complete());
}

TEST_F(WriterOrderTest, ReadsOfOtherProcessesAreAskedForOnceAndAwaitedOnce) {
  world->publish();
  read_elsewhere();
  world->publish();  // the other slot
  const WriteAttempt next = begin();
  const int fetches = files->fetches;
  ASSERT_TRUE(writer.collect(slots(), next.slot, kNoInterrupts).ok());
  EXPECT_EQ(files->fetches, fetches + 1) << "the reader's events";
  ASSERT_TRUE(writer.stream_wait_slot(kOurs).ok());
  ASSERT_TRUE(writer.record_write(next.slot, next.version, {kOurs, {}}, go_on).ok());
  slots().publish(next.slot, next.version);
  EXPECT_TRUE(*writer.reads_complete(slots(), next.slot, kNoInterrupts));
  EXPECT_EQ(files->fetches, fetches + 1);
  EXPECT_EQ(control.calls(), 0U);
}

TEST_F(WriterOrderTest, AReadThatGoesOnKeepsItsSlotFromBeingComplete) {
  world->publish();
  gpu.stall(kOther);
  read_elsewhere();
  world->publish();
  const WriteAttempt next = begin();
  EXPECT_FALSE(*writer.reads_complete(slots(), next.slot, kNoInterrupts));
  gpu.resume();
  EXPECT_TRUE(*writer.reads_complete(slots(), next.slot, kNoInterrupts));
}

// A graph would store the same count each time it runs, and those who wait for the record until it
// does so would wait for ever.
TEST_F(WriterOrderTest, NothingIsRecordedOnAStreamThatCapturesAGraph) {
  const WriteAttempt attempt = begin();
  ASSERT_TRUE(writer.collect(slots(), attempt.slot, kNoInterrupts).ok());
  const std::uint64_t recorded = (*versions)[attempt.slot].recorded();
  gpu.capture(kOurs);
  const auto refused = [&](const absl::Status& status) {
    return wire::code_of(status) == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(writer.record_own(attempt.slot, kOurs, go_on)));
  EXPECT_TRUE(refused(writer.stream_wait_own(attempt.slot, kOurs, kOther, go_on)));
  EXPECT_TRUE(refused(writer.record_write(attempt.slot, attempt.version, {kOurs, {}}, go_on)));
  EXPECT_TRUE(refused(writer.record_write(attempt.slot, attempt.version, {kOther, kOurs}, go_on)));
  EXPECT_EQ((*versions)[attempt.slot].recorded(), recorded);
  EXPECT_EQ(gpu.captured_count(), 0U);
  EXPECT_TRUE(versions->complete());
}

TEST_F(WriterOrderTest, AStreamThatCapturesAGraphDoesNotWait) {
  const WriteAttempt written = publish_unfinished(kOther);
  const WriteAttempt next = begin();
  ASSERT_TRUE(writer.collect(slots(), next.slot, kNoInterrupts).ok());
  gpu.capture(kOurs);
  EXPECT_EQ(wire::code_of(writer.stream_wait_slot(kOurs)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(wire::code_of((*versions)[written.slot].wait(kOurs)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(gpu.captured_count(), 0U);
  gpu.resume();
}

// Who waits for it goes on, and is told.
TEST_F(WriterOrderTest, AFailedDeviceLosesWhatWasNotComplete) {
  const WriteAttempt written = publish_unfinished(kOurs);
  gpu.resume();
  ASSERT_TRUE(versions->complete());
  const WriteAttempt unfinished = publish_unfinished(kOurs);
  gpu.fail();
  EXPECT_TRUE(versions->complete());
  EXPECT_TRUE(versions->lost());
  EXPECT_TRUE((*versions)[unfinished.slot].lost());
  EXPECT_FALSE((*versions)[written.slot].lost());
  EXPECT_TRUE(*(*versions)[unfinished.slot].complete());
}

// Its recorder has a device that works.
TEST_F(WriterOrderTest, AFailedDeviceLosesNothingOfAnotherProcess) {
  const WriteAttempt written = publish_unfinished(kOurs);
  gpu.resume();
  auto page = others.event_page(kEvents, wire::FileKind::kEvents, gpu, kNoInterrupts).value();
  SharedEvents theirs = SharedEvents::in(std::move(page), kEventsOffset, 2, gpu).value();
  gpu.stall(kOther);
  ASSERT_TRUE(theirs[written.slot].record(kOther).ok());
  gpu.fail();
  EXPECT_TRUE(versions->complete());
  EXPECT_FALSE((*versions)[written.slot].lost());
}

// As the streams cannot wait for that reader.
TEST_F(WriterOrderTest, TheHostWaitsForAReaderWhosePageCannotBeRegistered) {
  world->publish();
  gpu.stall(kOther);
  read_elsewhere();
  world->publish();
  const WriteAttempt next = begin();
  gpu.refuse_registrations(true);
  ASSERT_TRUE(writer.collect(slots(), next.slot, kNoInterrupts).ok());
  EXPECT_TRUE(writer.by_host());
  EXPECT_FALSE(*writer.slot_free());
  gpu.resume();
  EXPECT_TRUE(*writer.slot_free());
}

TEST_F(WriterOrderTest, AnInterruptEndsTheWaitForAReadersEvents) {
  world->publish();
  read_elsewhere();
  world->publish();
  const WriteAttempt next = begin();
  const auto interrupt = [] { return interrupted(std::make_exception_ptr(1)); };
  files->answers = files->fetches.load();
  const auto complete = writer.reads_complete(slots(), next.slot, interrupt);
  EXPECT_NE(interrupt_of(complete.status()), nullptr);
  EXPECT_NE(interrupt_of(writer.collect(slots(), next.slot, interrupt)), nullptr);
  files->answers = std::numeric_limits<int>::max();
  EXPECT_TRUE(writer.collect(slots(), next.slot, kNoInterrupts).ok());
}

// Its pages went with it.
TEST_F(WriterOrderTest, AReaderThatHasGoneHasNothingUnderWay) {
  world->publish();
  gpu.stall(kOther);
  read_elsewhere();
  world->publish();
  const WriteAttempt next = begin();
  files->missing.insert(wire::to_int(kReaderFile));
  EXPECT_TRUE(*writer.reads_complete(slots(), next.slot, kNoInterrupts));
  EXPECT_TRUE(writer.collect(slots(), next.slot, kNoInterrupts).ok());
  gpu.resume();
}

}  // namespace
}  // namespace memlease::internal
