// Streams: their order, the default streams' rules, host functions.
#include <atomic>

#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Streams : public Fakecuda {};

TEST_F(Streams, WorkIsDoneInOrder) {
  std::uint64_t* data = allocate();
  const cudaStream_t stream = new_stream();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(tk_fill(data, 16, 0, stream), 0);
    for (std::uint64_t k = 1; k <= 3; ++k) EXPECT_EQ(tk_add(data, 16, k, stream), 0);
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(first_of(data), 6U);
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(data));
}

TEST_F(Streams, AQueryTellsOfPendingWork) {
  const cudaStream_t stream = new_stream();
  {
    Gate gate;
    CUDA_OK(cudaStreamQuery(stream));
    gate.hold(stream);
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "not ready is no error";
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaStreamQuery(stream));
  CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(Streams, NonBlockingStreamsDoNotWaitForEachOtherNorForTheLegacyOne) {
  const cudaStream_t one = new_stream();
  const cudaStream_t two = new_stream();
  {
    Gate gate;
    gate.hold(one);
    EXPECT_EQ(tk_spin(1, two), 0);
    CUDA_OK(cudaStreamSynchronize(two));
    EXPECT_EQ(tk_spin(1, nullptr), 0);
    CUDA_OK(cudaStreamSynchronize(nullptr));
    EXPECT_EQ(cudaStreamQuery(one), cudaErrorNotReady);
  }
  CUDA_OK(cudaStreamDestroy(one));
  CUDA_OK(cudaStreamDestroy(two));
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingOnesAndHoldsThemBack) {
  const cudaStream_t one = new_stream(cudaStreamDefault);
  const cudaStream_t two = new_stream(cudaStreamDefault);
  std::uint64_t* data = allocate();
  {
    Gate gate;
    gate.hold(one);
    EXPECT_EQ(tk_fill(data, 16, 1, one), 0);
    EXPECT_EQ(tk_add(data, 16, 1, nullptr), 0);  // behind `one`
    EXPECT_EQ(tk_add(data, 16, 1, two), 0);      // behind the legacy stream
    EXPECT_EQ(cudaStreamQuery(two), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  }
  CUDA_OK(cudaStreamSynchronize(two));
  EXPECT_EQ(first_of(data), 3U);
  CUDA_OK(cudaFree(data));
  CUDA_OK(cudaStreamDestroy(one));
  CUDA_OK(cudaStreamDestroy(two));
}

// The order above is one that the checker knows: the test ends clean. Here it is not there.
TEST_F(Streams, TheLegacyStreamDoesNotOrderNonBlockingOnes) {
  const cudaStream_t one = new_stream();
  std::uint64_t* data = allocate();
  EXPECT_EQ(tk_fill(data, 16, 1, one), 0);
  CUDA_OK(fakecuda_drain(one));
  EXPECT_EQ(tk_add(data, 16, 1, nullptr), 0);
  CUDA_OK(cudaFree(data));
  CUDA_OK(cudaStreamDestroy(one));
  const auto findings = world.findings();
  EXPECT_EQ(findings.size(), 2U) << describe(findings);  // it reads and it writes
}

TEST_F(Streams, ThePerThreadStreamIsOrderedWithTheLegacyOne) {
  std::uint64_t* data = allocate();
  EXPECT_EQ(tk_fill(data, 16, 1, cudaStreamPerThread), 0);
  EXPECT_EQ(tk_add(data, 16, 1, cudaStreamLegacy), 0);
  EXPECT_EQ(tk_add(data, 16, 1, cudaStreamPerThread), 0);
  CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
  EXPECT_EQ(first_of(data), 3U);
  CUDA_OK(cudaFree(data));
}

TEST_F(Streams, EachThreadHasItsOwnPerThreadStream) {
  unsigned long long mine = 0;
  unsigned long long again = 0;
  unsigned long long other = 0;
  CUDA_OK(cudaStreamGetId(cudaStreamPerThread, &mine));
  CUDA_OK(cudaStreamGetId(cudaStreamPerThread, &again));
  std::thread([&] { EXPECT_EQ(cudaStreamGetId(cudaStreamPerThread, &other), cudaSuccess); }).join();
  EXPECT_EQ(mine, again);
  EXPECT_NE(mine, other);
}

TEST_F(Streams, ThePerThreadVariantsTakeStreamZeroForThePerThreadOne) {
  using GetId = cudaError_t (*)(cudaStream_t, unsigned long long*);
  const auto variant = reinterpret_cast<GetId>(dlsym(RTLD_DEFAULT, "cudaStreamGetId_ptsz"));
  ASSERT_NE(variant, nullptr);
  unsigned long long per_thread = 0;
  unsigned long long zero = 0;
  unsigned long long legacy = 0;
  CUDA_OK(cudaStreamGetId(cudaStreamPerThread, &per_thread));
  CUDA_OK(cudaStreamGetId(nullptr, &legacy));
  CUDA_OK(variant(nullptr, &zero));
  EXPECT_EQ(zero, per_thread);
  EXPECT_NE(zero, legacy);
}

TEST_F(Streams, ADestroyedStreamFinishesItsWork) {
  std::uint64_t* data = allocate();
  const cudaStream_t stream = new_stream();
  Gate gate;
  gate.hold(stream);
  EXPECT_EQ(tk_fill(data, 16, 5, stream), 0);
  CUDA_OK(cudaStreamDestroy(stream));
  gate.open();
  CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(first_of(data), 5U);
  CUDA_OK(cudaFree(data));
}

TEST_F(Streams, AHostFunctionRunsInItsTurnAndMayNotUseCuda) {
  struct Seen {
    std::atomic<int> error = -1;
  } seen;
  const cudaStream_t stream = new_stream();
  {
    Gate gate;
    gate.hold(stream);
    CUDA_OK(cudaLaunchHostFunc(
        stream,
        [](void* data) {
          int count = 0;
          static_cast<Seen*>(data)->error = cudaGetDeviceCount(&count);
        },
        &seen));
    EXPECT_EQ(seen.error, -1);
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(seen.error, static_cast<int>(cudaErrorNotPermitted));
  CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(Streams, AHostFunctionThatRunsAtTheEndIsAnswered) {
  struct Meeting {
    std::atomic<bool> begun = false;
    std::atomic<int> error = -1;
  } meeting;
  CUDA_OK(cudaLaunchHostFunc(
      nullptr,
      [](void* data) {
        auto* it = static_cast<Meeting*>(data);
        it->begun = true;
        while (fakecuda_cancelled() == 0) std::this_thread::yield();
        int count = 0;
        it->error = cudaGetDeviceCount(&count);
      },
      &meeting));
  while (!meeting.begun) std::this_thread::yield();
  EXPECT_THAT(world.findings(), ::testing::IsEmpty());
  EXPECT_EQ(meeting.error, static_cast<int>(cudaErrorNotPermitted));
}

TEST_F(Streams, AStreamTakesKernelsOfItsDeviceOnly) {
  const cudaStream_t stream = new_stream();
  CUDA_OK(cudaSetDevice(1));
  EXPECT_EQ(tk_spin(1, stream), static_cast<int>(cudaErrorInvalidResourceHandle));
  int device = -1;
  CUDA_OK(cudaStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 0);
  CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(Streams, PendingWorkDoesNotHoldUpTheEnd) {
  const cudaStream_t one = new_stream();
  const cudaStream_t two = new_stream();
  const cudaEvent_t event = new_event();
  {
    // Neither the kernel nor what waits for it would ever come to an end.
    static std::uint32_t never = 0;
    CUDA_OK(cudaHostRegister(&never, sizeof never, cudaHostRegisterDefault));
    EXPECT_EQ(tk_gate(&never, one), 0);
    CUDA_OK(cudaEventRecord(event, one));
    CUDA_OK(cudaStreamWaitEvent(two, event, 0));
  }
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

}  // namespace
}  // namespace fakecuda::testing
