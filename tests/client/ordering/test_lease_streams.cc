// Where the work of a lease ends, and who waits for whom, on a fake GPU.
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>

#include "client/ordering/lease_streams.h"
#include "gtest/gtest.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using testing::FakeControl;
using wire::ErrorCode;

const Stream kOurs = Stream::from_handle(16);
const Stream kOther = Stream::from_handle(17);
constexpr wire::FileId kEvents{8};
constexpr std::uint32_t kSlot = 1;
constexpr std::uint64_t kVersion = 5;

class LeaseStreamsTest : public ::testing::Test {
 protected:
  LeaseStreamsTest() {
    answer.spec.name = "a";
    answer.spec.device = "GPU-1";
    answer.spec.slots = 2;
    answer.slot_bytes = 512;
    answer.slots = {{wire::FileId{3}, 0}, {wire::FileId{3}, 512}};
    answer.events = {kEvents, 0};
    files->kinds = {{wire::to_int(kEvents), wire::FileKind::kEvents}};
  }
  absl::StatusOr<std::unique_ptr<GpuArray>> open_as_answered() {
    known.emplace(answer, std::make_shared<const wire::ArrayKind>(answer.spec));
    return GpuArray::open(*known, session, imports, kNoInterrupts);
  }
  void open() {
    auto opened = open_as_answered();
    ASSERT_TRUE(opened.ok()) << opened.status();
    array = std::move(*opened);
  }
  // A version whose work goes on until resume().
  void publish_unfinished() {
    gpu.stall(kOther);
    ASSERT_TRUE(array->order()->writer().record_write(kSlot, kVersion, {kOther, {}}, go_on).ok());
  }
  static absl::Status go_on() { return {}; }
  bool complete(Stream stream) { return *(*gpu.mark(stream))->complete(); }

  testing::Gates gates;
  testing::FakeImporter gpu{"GPU-1", gates};
  FakeControl* const control = new FakeControl;  // the session's
  testing::FakeFiles* const files = new testing::FakeFiles;
  Session session{"/here", wire::SessionId{7}, std::unique_ptr<FileSource>(files),
                  std::unique_ptr<ControlPort>(control)};
  ImportCache imports{*control, session.mappings(), gpu};
  OpenAnswer answer;
  std::optional<KnownArray> known;
  std::unique_ptr<GpuArray> array;
  LeaseStreams streams;
};

TEST_F(LeaseStreamsTest, OpensASegmentOnceForAllSlots) {
  open();
  EXPECT_EQ(gpu.open_memory_count(), 1);
  EXPECT_EQ(gpu.registered_count(), 1U);
  EXPECT_EQ(array->slot_data()[1] - array->slot_data()[0], 512);
  array = nullptr;
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 0);
  imports.flush();
  EXPECT_EQ(gpu.registered_count(), 0U);
  EXPECT_EQ(control->closed_memory, 1);
}

TEST_F(LeaseStreamsTest, RefusesASlotOutsideOfItsSegment) {
  answer.slots[1].offset = FakeControl::kSegmentBytes - 511;
  const auto opened = open_as_answered();
  EXPECT_EQ(wire::code_of(opened.status()), ErrorCode::kInternal);
  imports.close_unused();
  EXPECT_EQ(gpu.open_memory_count(), 0);
}

TEST_F(LeaseStreamsTest, MakesAStreamWaitAndNotTheHost) {
  open();
  publish_unfinished();
  ASSERT_TRUE(order_read(*array, kSlot, kVersion, kOurs, streams).ok());
  EXPECT_FALSE(complete(kOurs));
  EXPECT_TRUE(streams.ordered);
  gpu.resume();
  EXPECT_TRUE(complete(kOurs));
}

TEST_F(LeaseStreamsTest, MakesTheHostWaitWhereNoStreamIsNamed) {
  open();
  publish_unfinished();
  auto waiting = std::async(
      std::launch::async, [&] { return host_wait_version_once(*array, kSlot, kVersion, streams); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  gpu.resume();
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_TRUE(streams.ordered);
}

TEST_F(LeaseStreamsTest, WaitsOnceOnTheHost) {
  open();
  ASSERT_TRUE(host_wait_version_once(*array, kSlot, kVersion, streams).ok());
  publish_unfinished();
  EXPECT_TRUE(host_wait_version_once(*array, kSlot, kVersion, streams).ok());
  gpu.resume();
}

TEST_F(LeaseStreamsTest, WaitsOnTheHostForAStreamWhereTheDaemonSaysSo) {
  answer.host_wait_limit = std::chrono::milliseconds(1);
  open();
  publish_unfinished();
  const absl::Status status = order_read(*array, kSlot, kVersion, kOurs, streams);
  EXPECT_EQ(wire::code_of(status), ErrorCode::kTimeout);
  EXPECT_TRUE(complete(kOurs)) << "no stream waits for another process";
  EXPECT_FALSE(streams.ordered);
  gpu.resume();
}

TEST_F(LeaseStreamsTest, EndsAWaitOfTheHostWithAnInterrupt) {
  open();
  publish_unfinished();
  streams.interrupt_check = session.add_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
  EXPECT_EQ(wire::code_of(host_wait_version(*array, kSlot, kVersion, streams)),
            ErrorCode::kInterrupted);
  EXPECT_FALSE(streams.ordered);
  gpu.resume();
}

// Streams cannot be ordered there: hosts wait for work, and are told of.
TEST_F(LeaseStreamsTest, EndsAWaitForItsOwnWorkWithAnInterruptWhereNothingCanBeRegistered) {
  gpu.refuse_registrations(true);
  open();
  EXPECT_EQ(session.refused_registrations(), 1U);
  gpu.stall(kOurs);
  streams.stream = kOurs;
  streams.interrupt_check = session.add_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
  EXPECT_EQ(wire::code_of(host_wait_slot(*array, kSlot, streams)), ErrorCode::kInterrupted);
  EXPECT_EQ(wire::code_of(order_write_view(*array, kSlot, kOther, streams)),
            ErrorCode::kInterrupted);
  EXPECT_FALSE(streams.ordered);
  gpu.resume();
}

TEST_F(LeaseStreamsTest, EndsWhereItsOneStreamDoes) {
  open();
  EXPECT_FALSE(end_of(streams, {})) << "nobody knows";
  ASSERT_TRUE(order_read(*array, kSlot, kVersion, kOurs, streams).ok());
  EXPECT_EQ(end_of(streams, {}), kOurs);
  EXPECT_EQ(end_of(streams, kOther), kOther) << "what its user says";
}

TEST_F(LeaseStreamsTest, OfSeveralStreamsEndsNowhereThatAnybodyKnows) {
  open();
  for (const Stream stream : {kOurs, kOther}) {
    ASSERT_TRUE(order_read(*array, kSlot, kVersion, stream, streams).ok());
  }
  EXPECT_FALSE(end_of(streams, {}));
}

TEST_F(LeaseStreamsTest, OfAViewOnAnotherStreamEndsNowhereThatAnybodyKnows) {
  open();
  ASSERT_TRUE(order_read(*array, kSlot, kVersion, kOurs, streams).ok());
  note_view(streams, kOurs);
  EXPECT_EQ(end_of(streams, {}), kOurs);
  note_view(streams, kOther);
  EXPECT_FALSE(end_of(streams, {}));
}

TEST_F(LeaseStreamsTest, ExportsItsOwnStreamOrOneOfOursOnce) {
  open();
  int waits = 0;
  const auto wait = [&](Stream /*stream*/) {
    ++waits;
    return absl::OkStatus();
  };
  LeaseStreams without;
  const auto ours = export_stream(*array, without, wait);
  ASSERT_TRUE(ours.ok());
  EXPECT_EQ(without.view_stream, *ours);
  EXPECT_EQ(*export_stream(*array, without, wait), *ours);
  EXPECT_EQ(waits, 2) << "each view waits";
  ASSERT_TRUE(order_read(*array, kSlot, kVersion, kOurs, streams).ok());
  EXPECT_EQ(*export_stream(*array, streams, wait), kOurs);
  EXPECT_EQ(waits, 2) << "the lease's stream has waited";
}

TEST_F(LeaseStreamsTest, AWriterComesBehindTheCurrentVersion) {
  open();
  publish_unfinished();
  // Of a slot's earlier users only its writers: nobody reads here.
  ASSERT_TRUE(array->order()->writer().record_own(0, kOurs, go_on).ok());
  EXPECT_TRUE(complete(kOurs));
  ASSERT_TRUE(array->order()->writer().stream_wait_own(0, kOther, kOurs, go_on).ok());
  EXPECT_FALSE(complete(kOurs));
  gpu.resume();
}

}  // namespace
}  // namespace memlease::internal
