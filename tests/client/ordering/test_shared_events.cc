// Events of slots as words: what is behind what, which number a record has, and what is left of it
// when a stream or the device refuses.
#include <memory>

#include "client/ordering/host_wait.h"
#include "client/ordering/shared_events.h"
#include "client/ordering/stream_waits.h"
#include "gtest/gtest.h"
#include "tests/support/fake_files.h"
#include "tests/support/fake_importer.h"
#include "tests/support/gates.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

class GpuThatRefusesWrites : public testing::FakeImporter {
 public:
  using FakeImporter::FakeImporter;
  absl::Status write_word(wire::Word& word, std::uint64_t value, Stream stream) override {
    if (!refuses_writes) return FakeImporter::write_word(word, value, stream);
    return wire::make_error(wire::ErrorCode::kInternal, "the fake GPU refuses", "");
  }
  void checker_saw(const wire::Word& /*word*/) override { ++seen; }
  bool refuses_writes = false;
  int seen = 0;
};

class SharedEventsTest : public ::testing::Test {
 public:
  ~SharedEventsTest() override { gpu.resume(); }  // before its page is unregistered

 protected:
  static inline const Stream kFirst = Stream::from_handle(16);
  static inline const Stream kSecond = Stream::from_handle(17);
  static constexpr std::uint64_t kOffset = 64;

  std::shared_ptr<EventPage> make_page() {
    files.kind = wire::FileKind::kEvents;
    return EventPage::make(*mappings.get(wire::FileId{1}, files.kind, kNoInterrupts), gpu);
  }
  absl::StatusOr<SharedEvents> at(std::uint64_t offset, std::uint32_t slots = 2) {
    return SharedEvents::in(page, offset, slots, gpu);
  }
  bool is_over(Stream stream) { return *(*gpu.mark(stream))->complete(); }
  bool waits_are_over() { return page->waits_are_over(StreamWaits::over().up_to); }

  testing::Gates gates;
  GpuThatRefusesWrites gpu{"GPU-1", gates};
  testing::FakeFiles files;
  MappingCache mappings{files};
  std::shared_ptr<EventPage> page = make_page();
  SharedEvents events = *at(kOffset);
  SharedEvent& event = events[1];
};

TEST_F(SharedEventsTest, AnEventWithoutARecordIsCompleteAndKeepsNobody) {
  gpu.capture(kSecond);
  EXPECT_EQ(event.recorded(), 0U);
  EXPECT_TRUE(*event.complete());
  EXPECT_TRUE(event.wait(kSecond).ok());
  EXPECT_EQ(gpu.captured_count(), 0U);
}

TEST_F(SharedEventsTest, ARecordIsCompleteWhereItsStreamIsAndOthersAreNot) {
  ASSERT_TRUE(event.record(kFirst).ok());
  gpu.stall(kFirst);
  ASSERT_TRUE(event.record(kFirst).ok());
  EXPECT_EQ(event.recorded(), 2U);
  EXPECT_TRUE(*event.complete(1));
  EXPECT_FALSE(*event.complete(2));
  EXPECT_FALSE(*event.complete());
  EXPECT_EQ(events[0].recorded(), 0U);
  gpu.resume();
  EXPECT_TRUE(*event.complete());
}

TEST_F(SharedEventsTest, TheCheckerIsToldOnceTheHostHasSeenTheEnd) {
  gpu.stall(kFirst);
  ASSERT_TRUE(event.record(kFirst).ok());
  const int seen_before = gpu.seen;
  EXPECT_FALSE(*event.complete());
  EXPECT_EQ(gpu.seen, seen_before);
  gpu.resume();
  EXPECT_TRUE(*event.complete());
  EXPECT_EQ(gpu.seen, seen_before + 1);
}

// Else its stream, if it came first, would leave the word behind the count.
TEST_F(SharedEventsTest, AStreamThatRecordsWaitsForTheLastRecord) {
  gpu.stall(kFirst);
  ASSERT_TRUE(event.record(kFirst).ok());
  ASSERT_TRUE(event.record(kSecond).ok());
  EXPECT_FALSE(is_over(kSecond));
  EXPECT_FALSE(*event.complete(1));
  gpu.resume();
  EXPECT_TRUE(is_over(kSecond));
  EXPECT_TRUE(*event.complete(2));
}

TEST_F(SharedEventsTest, AJoinedRecordIsBehindBothAndItsStreamWaitsForNothing) {
  gpu.stall(kFirst);
  ASSERT_TRUE(event.record(kFirst).ok());
  ASSERT_TRUE(event.record_joined(kSecond).ok());
  EXPECT_TRUE(is_over(kSecond));
  EXPECT_FALSE(*event.complete());
  gpu.resume();
  EXPECT_TRUE(*event.complete());
  gpu.stall(kSecond);
  ASSERT_TRUE(event.record_joined(kSecond).ok());
  EXPECT_FALSE(*event.complete()) << "it is behind what the stream itself was given, too";
}

TEST_F(SharedEventsTest, AWaitIsNotedOnItsPageUntilItIsOver) {
  gpu.stall(kFirst);
  ASSERT_TRUE(event.record(kFirst).ok());
  EXPECT_TRUE(waits_are_over());
  ASSERT_TRUE(event.wait(kSecond).ok());
  EXPECT_FALSE(is_over(kSecond));
  EXPECT_FALSE(waits_are_over());
  gpu.resume();
  EXPECT_TRUE(waits_are_over());
}

// Its stream may wait already for the record before.
TEST_F(SharedEventsTest, AFailedRecordLeavesTheLastOneAndNotesItsWait) {
  gpu.stall(kFirst);
  ASSERT_TRUE(event.record(kFirst).ok());
  gpu.refuses_writes = true;
  EXPECT_FALSE(event.record(kSecond).ok());
  EXPECT_EQ(event.recorded(), 1U);
  EXPECT_FALSE(waits_are_over());
  gpu.resume();
  EXPECT_TRUE(*event.complete());
  EXPECT_TRUE(waits_are_over());
}

TEST_F(SharedEventsTest, AFailedDeviceSaysSoUntilSomebodyEndsTheRecord) {
  gpu.stall(kFirst);
  for (SharedEvent* const each : {&events[0], &events[1]}) {
    ASSERT_TRUE(each->record(kFirst).ok());
  }
  gpu.fail();
  EXPECT_TRUE(device_failed(event.complete().status()));
  EXPECT_FALSE(event.record(kSecond).ok());
  EXPECT_EQ(event.recorded(), 1U);
  events[0].end_read();
  EXPECT_TRUE(*events[0].complete());
  EXPECT_FALSE(events[0].lost());
  event.lose_version();
  EXPECT_TRUE(*event.complete()) << "who waits goes on";
  EXPECT_TRUE(event.lost());
}

TEST_F(SharedEventsTest, StandInsideOfTheirPage) {
  constexpr std::uint64_t kEventBytes = sizeof(wire::EventWords);
  EXPECT_TRUE(at(testing::FakeFiles::kSizeBytes - 2 * kEventBytes).ok());
  for (const std::uint64_t wrong : {testing::FakeFiles::kSizeBytes - kEventBytes, kOffset + 1}) {
    EXPECT_EQ(wire::code_of(at(wrong).status()), wire::ErrorCode::kInternal);
  }
}

TEST_F(SharedEventsTest, OfAPageThatIsNotRegisteredAreForTheHost) {
  EXPECT_FALSE(events.by_host());
  EXPECT_FALSE(event.by_host());
  gpu.refuse_registrations(true);
  page = make_page();
  const auto for_hosts = at(kOffset);
  EXPECT_TRUE(for_hosts->by_host());
  EXPECT_TRUE((*for_hosts)[1].by_host());
}

}  // namespace
}  // namespace memlease::internal
