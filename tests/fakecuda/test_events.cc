// Events: what a wait waits for, what a query says, when one is gone.
#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Events : public Fakecuda {};

TEST_F(Events, OneThatWasNeverRecordedIsComplete) {
  const cudaEvent_t event = new_event();
  CUDA_OK(cudaEventQuery(event));
  CUDA_OK(cudaEventSynchronize(event));
  CUDA_OK(cudaStreamWaitEvent(nullptr, event, 0));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Events, ARecordCompletesWithTheWorkBeforeIt) {
  const cudaEvent_t event = new_event();
  const cudaStream_t stream = new_stream();
  {
    Gate gate;
    gate.hold(stream);
    CUDA_OK(cudaEventRecord(event, stream));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  }
  CUDA_OK(cudaEventSynchronize(event));
  CUDA_OK(cudaEventQuery(event));
  CUDA_OK(cudaEventDestroy(event));
  CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(Events, ALaterRecordIsNotWhatAnEarlierWaitWaitsFor) {
  const cudaEvent_t event = new_event();
  const cudaStream_t one = new_stream();
  const cudaStream_t slow = new_stream();
  const cudaStream_t waiting = new_stream();
  {
    Gate gate;
    CUDA_OK(cudaEventRecord(event, one));
    CUDA_OK(cudaStreamWaitEvent(waiting, event, 0));
    gate.hold(slow);
    CUDA_OK(cudaEventRecord(event, slow));
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady) << "the last record counts";
    CUDA_OK(cudaStreamSynchronize(waiting));
  }
  for (cudaStream_t stream : {one, slow, waiting}) CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Events, ALaterRecordDoesNotFreeWhoWaitsForAnEarlierOne) {
  const cudaEvent_t event = new_event();
  const cudaStream_t slow = new_stream();
  const cudaStream_t fast = new_stream();
  const cudaStream_t waiting = new_stream();
  {
    Gate gate;
    gate.hold(slow);
    CUDA_OK(cudaEventRecord(event, slow));
    CUDA_OK(cudaStreamWaitEvent(waiting, event, 0));
    CUDA_OK(cudaEventRecord(event, fast));
    CUDA_OK(cudaEventSynchronize(event));
    EXPECT_EQ(cudaStreamQuery(waiting), cudaErrorNotReady);
  }
  for (cudaStream_t stream : {slow, fast, waiting}) CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
}

// As it may be on some driver; the checker tells of it.
TEST_F(Events, WithTheKnobALaterRecordFreesThem) {
  world->set(Knob::kHeirReleases, 1);
  const cudaEvent_t event = new_event();
  const cudaStream_t slow = new_stream();
  const cudaStream_t fast = new_stream();
  const cudaStream_t waiting = new_stream();
  {
    Gate gate;
    gate.hold(slow);
    CUDA_OK(cudaEventRecord(event, slow));
    CUDA_OK(cudaStreamWaitEvent(waiting, event, 0));
    CUDA_OK(cudaEventRecord(event, fast));
    CUDA_OK(cudaStreamSynchronize(waiting));
  }
  for (cudaStream_t stream : {slow, fast, waiting}) CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
  EXPECT_THAT(only(world.findings()), Is(What::kOrphanWait));
}

TEST_F(Events, ManyRecordsAreToldApart) {
  const cudaEvent_t event = new_event();
  const cudaStream_t one = new_stream();
  const cudaStream_t two = new_stream();
  std::uint64_t* data = allocate();
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(tk_fill(data, 16, static_cast<std::uint64_t>(i), one), 0);
    CUDA_OK(cudaEventRecord(event, one));
    CUDA_OK(cudaStreamWaitEvent(two, event, 0));
    EXPECT_EQ(tk_add(data, 16, 1, two), 0);
    CUDA_OK(cudaEventRecord(event, two));
    CUDA_OK(cudaStreamWaitEvent(one, event, 0));
  }
  CUDA_OK(cudaStreamSynchronize(two));
  EXPECT_EQ(first_of(data), 300U);
  for (cudaStream_t stream : {one, two}) CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
  CUDA_OK(cudaFree(data));
}

TEST_F(Events, ManyLaterRecordsDoNotFreeWhoWaitsForAnEarlierOne) {
  const cudaEvent_t event = new_event();
  const cudaStream_t slow = new_stream();
  const cudaStream_t fast = new_stream();
  const cudaStream_t waiting = new_stream();
  {
    Gate gate;
    gate.hold(slow);
    CUDA_OK(cudaEventRecord(event, slow));
    CUDA_OK(cudaStreamWaitEvent(waiting, event, 0));
    for (u32 i = 0; i < 3 * kEventRing; ++i) {
      CUDA_OK(cudaEventRecord(event, fast));
      CUDA_OK(cudaEventSynchronize(event));
    }
    EXPECT_EQ(cudaStreamQuery(waiting), cudaErrorNotReady);
  }
  CUDA_OK(cudaStreamSynchronize(waiting));
  for (cudaStream_t stream : {slow, fast, waiting}) CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Events, DestroyingOneWithWorkPendingIsFine) {
  const cudaEvent_t event = new_event();
  const cudaStream_t one = new_stream();
  const cudaStream_t two = new_stream();
  {
    Gate gate;
    gate.hold(one);
    CUDA_OK(cudaEventRecord(event, one));
    CUDA_OK(cudaStreamWaitEvent(two, event, 0));
    CUDA_OK(cudaEventDestroy(event));
    EXPECT_EQ(cudaStreamQuery(two), cudaErrorNotReady);
  }
  CUDA_OK(cudaStreamSynchronize(two));
  for (cudaStream_t stream : {one, two}) CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(Events, UsingOneAfterItsDestructionIsFound) {
  const cudaEvent_t event = new_event();
  CUDA_OK(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
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
  const cudaEvent_t event = new_event();
  CUDA_OK(cudaSetDevice(1));
  const cudaStream_t other = new_stream();
  EXPECT_EQ(cudaEventRecord(event, other), cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaEventRecord(event, nullptr));
  CUDA_OK(cudaStreamWaitEvent(other, event, 0));
  CUDA_OK(cudaStreamSynchronize(other));
  CUDA_OK(cudaStreamDestroy(other));
  CUDA_OK(cudaEventDestroy(event));
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
