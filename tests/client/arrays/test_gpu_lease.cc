// How writes of an array on a GPU begin and end, and what is copied into them, on a fake GPU.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "client/arrays/begin_write.h"
#include "client/arrays/gpu_copy.h"
#include "client/arrays/gpu_lease.h"
#include "client/arrays/wait_limit.h"
#include "client/ordering/element_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::ErrorCode;

// Of 4 by 4 int32, which this process writes.
class GpuLeaseTest : public ::testing::Test, protected testing::ArrayWorld {
 public:
  ~GpuLeaseTest() override { gpu.resume(); }  // what a GPU still works on is kept for good

 protected:
  static inline const Stream kOurs = Stream::from_handle(16);
  static inline const Stream kOther = Stream::from_handle(17);

  GpuLeaseTest() {
    answer.spec.dtype = wire::DType{wire::DTypeCode::kInt, 32, 1};
    answer.spec.shape = {4, 4};
    answer.spec.device = "GPU-1";
    answer.events = {kEvents, 0};
    array = open();
    grant_ownership();
  }

  void begin(Stream stream = {}, bool copy = false) {
    WaitLimit within(owner->session(), 0, std::chrono::nanoseconds(0), {});
    const auto status = begin_write(*array, within, attempt);
    ASSERT_TRUE(status.ok()) << status;
    streams = {};
    const auto begun = begin_gpu_write(*array, attempt.slot, stream, copy, streams);
    ASSERT_TRUE(begun.ok()) << begun;
  }
  absl::Status end(bool publish, Stream said = {}) {
    return end_gpu_write(*array, attempt.slot, attempt.version, publish, said, streams);
  }
  // At once.
  void publish(std::int32_t value) {
    begin(kOurs);
    std::fill_n(elements(), 16, value);
    ASSERT_TRUE(end(true).ok());
  }
  // Its work goes on until resume().
  void publish_unfinished() {
    begin(kOther);
    gpu.stall(kOther);
    ASSERT_TRUE(end(true).ok());
  }
  std::int32_t* elements() {
    return reinterpret_cast<std::int32_t*>(array->write_data(attempt.slot));
  }
  std::vector<std::int32_t> row(int number) {
    return {elements() + 4 * number, elements() + 4 * number + 4};
  }
  wire::Publication published() const { return array->writing().slot_writer()->current(); }
  bool idle(Stream stream) { return *(*gpu.mark(stream))->complete(); }
  ElementLayout whole() const { return layout_of(answer.spec); }
  // Two elements of the second row.
  ElementLayout middle() const {
    return *layout_of(answer.spec, answer.spec.name, {1, Range{1, 3}});
  }
  GpuSource source(Stream stream = {}) const { return {values->data(), {}, stream, values}; }
  absl::Status put(const ElementLayout& part, const GpuSource& from) {
    const auto by = check_source(*array, part, from);
    if (!by.ok()) return by.status();
    return put_from_gpu(*array, attempt.slot, part, from, *by, false, streams);
  }
  // By a user who interrupts whatever waits.
  void interrupt() {
    streams.interrupt_check =
        owner->session().add_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
  }

  std::shared_ptr<OpenArray> array;
  WriteAttempt attempt;
  LeaseStreams streams;
  const std::shared_ptr<std::vector<std::int32_t>> values =
      std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{7, 8});
};

TEST_F(GpuLeaseTest, AWriteThatIsPublishedIsTheCurrentVersion) {
  publish(3);
  EXPECT_EQ(published().version, 1U);
  EXPECT_FALSE(array->writing().entered());
}

TEST_F(GpuLeaseTest, AVersionIsPublishedThoughItsWorkGoesOn) {
  publish_unfinished();
  EXPECT_EQ(published().version, 1U);
  EXPECT_FALSE(idle(kOther));
}

TEST_F(GpuLeaseTest, AWriteRunsBehindTheEarlierUseOfItsSlot) {
  publish_unfinished();
  publish(2);  // in the other slot, which nobody works on
  begin(kOurs);
  EXPECT_FALSE(idle(kOurs));
  gpu.resume();
  EXPECT_TRUE(idle(kOurs));
  EXPECT_TRUE(end(false).ok());
}

TEST_F(GpuLeaseTest, AVersionThatNobodyHasWrittenComesBehindTheEarlierUseOfItsSlotToo) {
  publish_unfinished();
  publish(2);
  begin();
  EXPECT_TRUE(end(true, kOurs).ok());
  EXPECT_FALSE(idle(kOurs));
}

TEST_F(GpuLeaseTest, WhatIsGivenUpUntouchedWaitsForNobody) {
  publish_unfinished();
  publish(2);
  begin();
  interrupt();
  EXPECT_TRUE(end(false).ok());
  EXPECT_EQ(published().version, 2U);
  EXPECT_FALSE(array->has_deferred());
}

TEST_F(GpuLeaseTest, AWriteWhoseEndCannotBeRecordedIsDropped) {
  begin(kOurs);
  gpu.fail();
  EXPECT_FALSE(end(true).ok());
  EXPECT_EQ(published().version, 0U);
  EXPECT_FALSE(array->writing().entered());
}

TEST_F(GpuLeaseTest, WhereTheGpuHasLostAVersionNoWriteBegins) {
  publish_unfinished();
  begin(kOurs);
  gpu.fail();
  EXPECT_FALSE(end(true).ok());
  ASSERT_TRUE(array->gpu()->lost());
  EXPECT_FALSE(begin_gpu_write(*array, 0, {}, false, streams).ok());
}

TEST_F(GpuLeaseTest, AWriteMayBeginWithTheCurrentElements) {
  publish(5);
  for (const Stream stream : {Stream(), kOurs}) {
    begin(stream, true);
    EXPECT_THAT(row(3), ElementsAre(5, 5, 5, 5));
    EXPECT_TRUE(end(true).ok());
  }
  EXPECT_EQ(published().version, 3U);
}

TEST_F(GpuLeaseTest, ThatCopyRunsBehindTheCurrentVersionsWork) {
  publish_unfinished();
  begin(kOurs, true);
  EXPECT_FALSE(idle(kOurs));
  gpu.resume();
  EXPECT_TRUE(idle(kOurs));
  EXPECT_TRUE(end(false).ok());
}

TEST_F(GpuLeaseTest, ARegionIsCopiedFromTheHostAndBack) {
  publish(1);
  begin({}, true);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values->data());
  ASSERT_TRUE(put_to_device(*array, attempt.slot, middle(), bytes, false, streams).ok());
  EXPECT_THAT(row(0), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(row(1), ElementsAre(1, 7, 8, 1));
  std::vector<std::int32_t> back(2);
  ASSERT_TRUE(get_from_device(*array, attempt.slot, attempt.version, middle(),
                              reinterpret_cast<std::byte*>(back.data()), false, streams)
                  .ok());
  EXPECT_THAT(back, ElementsAre(7, 8));
  EXPECT_TRUE(end(true).ok());
}

TEST_F(GpuLeaseTest, ASourceIsCopiedBehindItsStreamAndKeptUntilThen) {
  begin(kOurs);
  gpu.stall(kOther);
  ASSERT_TRUE(put(middle(), source(kOther)).ok());
  EXPECT_THAT(row(1), ElementsAre(0, 7, 8, 0));
  EXPECT_FALSE(idle(kOurs)) << "whose work comes behind the producer's";
  owner->kept().let_go();
  EXPECT_EQ(values.use_count(), 2) << "the GPU may be reading it";
  gpu.resume();
  owner->kept().let_go();
  EXPECT_EQ(values.use_count(), 1);
  EXPECT_TRUE(end(true).ok());
}

TEST_F(GpuLeaseTest, ASourcesStreamGoesOnBehindItsCopy) {
  begin(kOurs);
  gpu.stall(kOurs);
  ASSERT_TRUE(put(middle(), source(kOther)).ok());
  EXPECT_FALSE(idle(kOther));
  gpu.resume();
  EXPECT_TRUE(end(true).ok());
}

TEST_F(GpuLeaseTest, WithoutAStreamOfItsOwnTheHostWaitsForTheSource) {
  begin();
  gpu.stall(kOther);
  interrupt();
  EXPECT_NE(interrupt_of(put(middle(), source(kOther))), nullptr);
  EXPECT_THAT(row(1), ElementsAre(0, 0, 0, 0));
  gpu.resume();
  ASSERT_TRUE(put(middle(), source(kOther)).ok());
  EXPECT_THAT(row(1), ElementsAre(0, 7, 8, 0));
  EXPECT_EQ(values.use_count(), 1);
  EXPECT_TRUE(end(true).ok());
}

TEST_F(GpuLeaseTest, ASourceThatCannotBeCopiedIsRefusedBeforeThereIsALease) {
  GpuSource from = source();
  from.strides_bytes = {4, 4};
  EXPECT_THAT(wire::message_of(check_source(*array, middle(), from).status()),
              HasSubstr("the source has 2 strides, and 'a' 1 dimensions"));
  from.strides_bytes = {4, 16};  // the array's, transposed
  EXPECT_EQ(wire::code_of(check_source(*array, whole(), from).status()), ErrorCode::kUnsupported);
  gpu.capture(kOther);
  EXPECT_EQ(wire::code_of(check_source(*array, middle(), source(kOther)).status()),
            ErrorCode::kInvalidArgument);
}

TEST_F(GpuLeaseTest, ASourceWithoutElementsIsNotLookedAt) {
  const ElementLayout none = *layout_of(answer.spec, answer.spec.name, {Range{1, 1}});
  const auto by = check_source(*array, none, {nullptr, {1, 2, 3}, kOther, nullptr});
  ASSERT_TRUE(by.ok());
  EXPECT_EQ(*by, nullptr);
  EXPECT_TRUE(put_from_gpu(*array, 0, none, {}, *by, false, streams).ok());
}

}  // namespace
}  // namespace memlease::internal
