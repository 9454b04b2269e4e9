// Reads of a GPU array run behind the version, and their ends are recorded before the hold goes.
#include "client/session/wait_news.h"
#include "tests/client/ordering/ordering_world.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

class ReaderOrderTest : public OrderingWorld {
 protected:
  void open_events() {
    const auto status = order->open_events(kOwnRow, imports, kNoInterrupts);
    ASSERT_TRUE(status.ok()) << status;
  }
  ReadAttempt lease() {
    world->publish();
    const ReadAttempt attempt = world->reader(0).acquire(0, 0);
    EXPECT_EQ(attempt.outcome, ReadOutcome::kAcquired);
    return attempt;
  }
  ReaderOrder::Released release(const ReadAttempt& read, const WorkEnd& end,
                                const absl::Status& usable = {}) {
    return order->release(world->reader(0), read.slot, read.version, end,
                          [usable] { return usable; });
  }
  std::uint32_t holds(const ReadAttempt& read) { return world->reader(0).holds(read.slot); }
};

TEST_F(ReaderOrderTest, AStreamWaitsForTheVersionAndNotTheHost) {
  open_events();
  const ReadAttempt read = lease();
  gpu.stall(kOther);
  ASSERT_TRUE(versions->record(read.slot, kOther, [] { return absl::OkStatus(); }).ok());
  EXPECT_FALSE(*order->version_complete(read.slot, read.version));
  ASSERT_TRUE(order->stream_wait_version(read.slot, read.version, kOurs).ok());
  EXPECT_FALSE(idle(kOurs));
  gpu.resume();
  EXPECT_TRUE(idle(kOurs));
  EXPECT_TRUE(*order->version_complete(read.slot, read.version));
}

// As what is recorded in another stream says nothing of that one.
TEST_F(ReaderOrderTest, AStreamThatDoesNotEndTheReadMayLookAtTheVersionsEventAfterwards) {
  open_events();
  const ReadAttempt read = lease();
  gpu.stall(kOther);
  ASSERT_TRUE(versions->record(read.slot, kOther, [] { return absl::OkStatus(); }).ok());
  ASSERT_TRUE(order->stream_wait_version(read.slot, read.version, kOurs).ok());
  ASSERT_TRUE(release(read, {Stream::from_handle(18), {}}).status.ok());
  EXPECT_TRUE(order->complete());
  order.reset();
  versions.reset();
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 2U) << "nor is any other page closed";
  gpu.resume();
  imports.close_unused();
  EXPECT_EQ(gpu.registered_count(), 0U);
}

TEST_F(ReaderOrderTest, TheEndIsRecordedAndCountedAndTheHoldGivenUp) {
  open_events();
  const ReadAttempt read = lease();
  gpu.stall(kOurs);
  const auto released = release(read, {kOurs, {}});
  EXPECT_TRUE(released.status.ok()) << released.status;
  EXPECT_FALSE(released.deferred);
  EXPECT_EQ(holds(read), 0U);
  EXPECT_EQ(world->reader(0).read_fence_count(read.slot), 1U);
  EXPECT_FALSE(*order->own_event(read.slot)->complete()) << "a writer waits for this";
  EXPECT_FALSE(order->complete());
  gpu.resume();
  EXPECT_TRUE(order->complete());
}

TEST_F(ReaderOrderTest, ALaterReadOnAnotherStreamDoesNotHideAnEarlierOne) {
  open_events();
  const ReadAttempt read = lease();
  world->reader(0).hold_again(read.slot);
  gpu.stall(kOurs);
  ASSERT_TRUE(release(read, {kOurs, {}}).status.ok());
  ASSERT_TRUE(release(read, {kOther, {}}).status.ok());
  EXPECT_FALSE(*order->own_event(read.slot)->complete()) << "kOurs still reads";
  gpu.resume();
  EXPECT_TRUE(*order->own_event(read.slot)->complete());
}

// Neither by itself nor joined with others.
TEST_F(ReaderOrderTest, NoEndIsRecordedOnAStreamThatCapturesAGraph) {
  open_events();
  const ReadAttempt read = lease();
  world->reader(0).hold_again(read.slot);
  gpu.capture(kOther);
  EXPECT_EQ(wire::code_of(release(read, {kOther, {}}).status), ErrorCode::kInvalidArgument);
  gpu.stall(kOurs);
  ASSERT_TRUE(release(read, {kOurs, {}}).status.ok());
  world->reader(0).hold_again(read.slot);
  const std::uint64_t recorded = order->own_event(read.slot)->recorded();
  const auto released = release(read, {kOther, {}});
  EXPECT_EQ(wire::code_of(released.status), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(released.deferred) << "what it was given before may go on";
  EXPECT_EQ(order->own_event(read.slot)->recorded(), recorded);
  EXPECT_EQ(gpu.captured_count(), 0U);
  gpu.resume();
}

TEST_F(ReaderOrderTest, WhereThePageCannotBeRegisteredTheHostWaitsForTheWork) {
  gpu.refuse_registrations(true);
  open_events();
  const ReadAttempt read = lease();
  EXPECT_TRUE(release(read, {kOurs, {}}).status.ok());
  EXPECT_EQ(holds(read), 0U);
  EXPECT_TRUE(order->complete());
}

TEST_F(ReaderOrderTest, AnInterruptedWaitKeepsTheHoldForALaterLook) {
  open_events();
  const ReadAttempt read = lease();
  gpu.stall(kOther);
  ASSERT_TRUE(versions->record(read.slot, kOther, [] { return absl::OkStatus(); }).ok());
  const auto stop = wire::make_error(ErrorCode::kInterrupted, "the test ends the wait", "");
  const auto released = release(read, {}, stop);
  EXPECT_EQ(wire::code_of(released.status), ErrorCode::kInterrupted);
  EXPECT_TRUE(released.deferred);
  EXPECT_TRUE(order->has_deferred());
  EXPECT_EQ(holds(read), 1U) << "work may go on that nobody has recorded";
  gpu.resume();
  EXPECT_TRUE(order->release_deferred(world->reader(0)).ok());
  EXPECT_EQ(holds(read), 0U);
  EXPECT_FALSE(order->has_deferred());
}

TEST_F(ReaderOrderTest, AVersionWhoseWriterDiedIsAnErrorAndTheHoldIsGivenUp) {
  open_events();
  const ReadAttempt read = lease();
  world->board().poisoned()[read.slot].store(read.version);
  EXPECT_EQ(wire::code_of(release(read, {kOurs, {}}).status), ErrorCode::kProducerDied);
  EXPECT_EQ(holds(read), 0U);
}

// A writer does not wait for them, nor for what nobody knows of.
TEST_F(ReaderOrderTest, AFailedDevicesReadsAreOver) {
  open_events();
  const ReadAttempt read = lease();
  for (int more = 0; more < 2; ++more) world->reader(0).hold_again(read.slot);
  gpu.stall(kOurs);
  ASSERT_TRUE(release(read, {kOurs, {}}).status.ok());
  ReaderOrder::PinMark mark;
  order->end_lease(mark);
  ASSERT_FALSE(order->end_pin(mark, read.slot));
  gpu.fail();
  EXPECT_EQ(wire::code_of(order->own_event(read.slot)->complete().status()), ErrorCode::kInternal);
  const auto released = release(read, {kOurs, {}});
  EXPECT_EQ(wire::code_of(released.status), ErrorCode::kInternal);
  EXPECT_FALSE(released.deferred);
  EXPECT_TRUE(*order->own_event(read.slot)->complete());
  EXPECT_EQ(wire::code_of(order->release_deferred(world->reader(0))), ErrorCode::kInternal);
  EXPECT_EQ(holds(read), 0U);
}

TEST_F(ReaderOrderTest, AVersionWhoseWritersGpuFailedIsAnErrorAndTheHoldIsGivenUp) {
  open_events();
  const ReadAttempt read = lease();
  gpu.stall(kOther);
  ASSERT_TRUE(versions->record(read.slot, kOther, [] { return absl::OkStatus(); }).ok());
  ASSERT_TRUE(order->stream_wait_version(read.slot, read.version, kOurs).ok());
  gpu.resume();
  auto page = imports.event_page(kEvents, wire::FileKind::kEvents, gpu, kNoInterrupts).value();
  SharedEvents::in(std::move(page), kEventsOffset, 2, gpu).value()[read.slot].lose_version();
  EXPECT_EQ(wire::code_of(order->version_complete(read.slot, read.version).status()),
            ErrorCode::kProducerDied);
  EXPECT_EQ(wire::code_of(release(read, {kOurs, {}}).status), ErrorCode::kProducerDied);
  EXPECT_EQ(holds(read), 0U);
}

TEST_F(ReaderOrderTest, APinThatOutlivesItsLeaseEndsByALaterLook) {
  open_events();
  const ReadAttempt read = lease();
  ReaderOrder::PinMark mark;
  EXPECT_TRUE(order->end_pin(mark, read.slot)) << "its lease records what it does";
  order->end_lease(mark);
  const std::uint32_t news = wait_news.count();
  EXPECT_FALSE(order->end_pin(mark, read.slot));
  EXPECT_NE(wait_news.count(), news) << "a thread that waits can see to it";
  EXPECT_TRUE(order->has_deferred());
  EXPECT_TRUE(order->release_deferred(world->reader(0)).ok());
  EXPECT_EQ(holds(read), 0U);
}

}  // namespace
}  // namespace memlease::internal
