// Events: what a wait waits for, what a query says, when one is gone.
#include <utility>

#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

// An event and three streams, called by what most tests do with them.
class Events : public Fakecuda {
 protected:
  void SetUp() override {
    event_ = new_event();
    for (cudaStream_t* stream : {&one_, &slow_, &waiting_}) *stream = new_stream();
  }
  void TearDown() override { give_back(); }
  // What is left would be found, beside what a test has planted.
  void give_back() {
    for (cudaStream_t* stream : {&one_, &slow_, &waiting_}) {
      if (*stream == nullptr) continue;
      CUDA_OK(cudaStreamDestroy(std::exchange(*stream, nullptr)));
    }
    if (event_ != nullptr) destroy();
  }
  void destroy() { CUDA_OK(cudaEventDestroy(std::exchange(event_, nullptr))); }

  cudaEvent_t event_ = nullptr;
  cudaStream_t one_ = nullptr;
  cudaStream_t slow_ = nullptr;
  cudaStream_t waiting_ = nullptr;
};

TEST_F(Events, OneThatWasNeverRecordedIsComplete) {
  CUDA_OK(cudaEventQuery(event_));
  CUDA_OK(cudaEventSynchronize(event_));
  CUDA_OK(cudaStreamWaitEvent(nullptr, event_, 0));
}

TEST_F(Events, ARecordCompletesWithTheWorkBeforeIt) {
  {
    Gate gate;
    gate.hold(slow_);
    CUDA_OK(cudaEventRecord(event_, slow_));
    EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  }
  CUDA_OK(cudaEventSynchronize(event_));
  CUDA_OK(cudaEventQuery(event_));
}

TEST_F(Events, ALaterRecordIsNotWhatAnEarlierWaitWaitsFor) {
  Gate gate;
  CUDA_OK(cudaEventRecord(event_, one_));
  CUDA_OK(cudaStreamWaitEvent(waiting_, event_, 0));
  gate.hold(slow_);
  CUDA_OK(cudaEventRecord(event_, slow_));
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady) << "the last record counts";
  CUDA_OK(cudaStreamSynchronize(waiting_));
}

TEST_F(Events, ALaterRecordDoesNotFreeWhoWaitsForAnEarlierOne) {
  Gate gate;
  gate.hold(slow_);
  CUDA_OK(cudaEventRecord(event_, slow_));
  CUDA_OK(cudaStreamWaitEvent(waiting_, event_, 0));
  CUDA_OK(cudaEventRecord(event_, one_));
  CUDA_OK(cudaEventSynchronize(event_));
  EXPECT_EQ(cudaStreamQuery(waiting_), cudaErrorNotReady);
}

// As it may be on some driver; the checker tells of it.
TEST_F(Events, WithTheKnobALaterRecordFreesThem) {
  world->set(Knob::kLaterRecordReleases, 1);
  {
    Gate gate;
    gate.hold(slow_);
    CUDA_OK(cudaEventRecord(event_, slow_));
    CUDA_OK(cudaStreamWaitEvent(waiting_, event_, 0));
    CUDA_OK(cudaEventRecord(event_, one_));
    CUDA_OK(cudaStreamSynchronize(waiting_));
  }
  give_back();
  EXPECT_THAT(only(world.findings()), Is(What::kOrphanWait));
}

TEST_F(Events, WithTheKnobARecordWaitsForEarlierOnes) {
  world->set(Knob::kRecordsQueue, 1);
  const cudaEvent_t before = new_event();
  CUDA_OK(fakecuda_pause(slow_, 50'000));
  CUDA_OK(cudaEventRecord(before, slow_));
  CUDA_OK(cudaEventRecord(event_, slow_));
  CUDA_OK(cudaEventRecord(event_, one_));
  CUDA_OK(cudaStreamSynchronize(one_));
  CUDA_OK(cudaEventQuery(before));
  CUDA_OK(cudaEventDestroy(before));
}

TEST_F(Events, ManyRecordsAreToldApart) {
  std::uint64_t* data = allocate();
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(tk_fill(data, 16, static_cast<std::uint64_t>(i), one_), 0);
    CUDA_OK(cudaEventRecord(event_, one_));
    CUDA_OK(cudaStreamWaitEvent(waiting_, event_, 0));
    EXPECT_EQ(tk_add(data, 16, 1, waiting_), 0);
    CUDA_OK(cudaEventRecord(event_, waiting_));
    CUDA_OK(cudaStreamWaitEvent(one_, event_, 0));
  }
  CUDA_OK(cudaStreamSynchronize(waiting_));
  EXPECT_EQ(first_of(data), 300U);
  CUDA_OK(cudaFree(data));
}

TEST_F(Events, ManyLaterRecordsDoNotFreeWhoWaitsForAnEarlierOne) {
  {
    Gate gate;
    gate.hold(slow_);
    CUDA_OK(cudaEventRecord(event_, slow_));
    CUDA_OK(cudaStreamWaitEvent(waiting_, event_, 0));
    for (u32 i = 0; i < 3 * kEventRing; ++i) {
      CUDA_OK(cudaEventRecord(event_, one_));
      CUDA_OK(cudaEventSynchronize(event_));
    }
    EXPECT_EQ(cudaStreamQuery(waiting_), cudaErrorNotReady);
  }
  CUDA_OK(cudaStreamSynchronize(waiting_));
}

TEST_F(Events, DestroyingOneWithWorkPendingIsFine) {
  {
    Gate gate;
    gate.hold(slow_);
    CUDA_OK(cudaEventRecord(event_, slow_));
    CUDA_OK(cudaStreamWaitEvent(waiting_, event_, 0));
    destroy();
    EXPECT_EQ(cudaStreamQuery(waiting_), cudaErrorNotReady);
  }
  CUDA_OK(cudaStreamSynchronize(waiting_));
}

TEST_F(Events, UsingOneAfterItsDestructionIsFound) {
  const cudaEvent_t gone = event_;
  destroy();
  EXPECT_EQ(cudaEventQuery(gone), cudaErrorInvalidResourceHandle);
  give_back();
  const Finding finding = only(world.findings());
  EXPECT_EQ(finding.what, What::kMisuse);
  EXPECT_THAT(finding.text, ::testing::HasSubstr("after it was destroyed"));
}

TEST_F(Events, OneForOtherProcessesCannotMeasureTime) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreateWithFlags(&event, 1U << 20), cudaErrorInvalidValue);
}

TEST_F(Events, OneIsRecordedOnItsOwnDeviceAndWaitedForOnAny) {
  CUDA_OK(cudaSetDevice(1));
  const cudaStream_t other = new_stream();
  EXPECT_EQ(cudaEventRecord(event_, other), cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaEventRecord(event_, nullptr));
  CUDA_OK(cudaStreamWaitEvent(other, event_, 0));
  CUDA_OK(cudaStreamSynchronize(other));
  CUDA_OK(cudaStreamDestroy(other));
}

TEST_F(Events, TimeIsMeasuredBetweenTwoRecords) {
  const cudaEvent_t start = new_event(cudaEventDefault);
  const cudaEvent_t end = new_event(cudaEventDefault);
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaEventRecord(start, nullptr));
  EXPECT_EQ(tk_spin(2000, nullptr), 0);
  CUDA_OK(cudaEventRecord(end, nullptr));
  CUDA_OK(cudaEventSynchronize(end));
  CUDA_OK(cudaEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 1.0F);
  CUDA_OK(cudaEventDestroy(start));
  CUDA_OK(cudaEventDestroy(end));
}

}  // namespace
}  // namespace fakecuda::testing
