// Errors: the last one, those that stay, those that a test plans.
#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Errors : public Fakecuda {};

TEST_F(Errors, TheLastOneIsKeptUntilItIsAskedFor) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  CUDA_OK(cudaFree(nullptr));
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Errors, EachThreadHasItsOwn) {
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST_F(Errors, AKernelsFaultShowsAtALaterCallAndStays) {
  std::uint64_t* data = allocate(16);
  const cudaStream_t stream = new_stream();
  EXPECT_EQ(tk_fill(data, 17, 1, stream), 0) << "the launch itself is fine";
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "it stays";
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 8), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFree(data), cudaErrorIllegalAddress);
  std::thread([] {
    void* other = nullptr;
    cudaSetDevice(0);
    EXPECT_EQ(cudaMalloc(&other, 8), cudaErrorIllegalAddress) << "in every thread";
  }).join();
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

TEST_F(Errors, AFaultDropsWhatWasQueued) {
  std::uint64_t* data = allocate(16);
  const cudaStream_t stream = new_stream();
  const cudaEvent_t event = new_event();
  int ran = 0;
  EXPECT_EQ(tk_fill(data + 16, 1, 1, stream), 0);
  CUDA_OK(fakecuda_drain(stream));
  EXPECT_EQ(cudaLaunchHostFunc(
                stream, [](void* it) { ++*static_cast<int*>(it); }, &ran),
            cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorIllegalAddress);
  EXPECT_EQ(ran, 0);
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

TEST_F(Errors, AnotherDevicesContextIsUnharmed) {
  CUDA_OK(cudaSetDevice(1));
  std::uint64_t* data = allocate(1);
  EXPECT_EQ(tk_fill(data, 2, 1, nullptr), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  CUDA_OK(cudaSetDevice(0));
  std::uint64_t* good = allocate(1);
  EXPECT_EQ(tk_fill(good, 1, 4, nullptr), 0);
  EXPECT_EQ(first_of(good), 4U);
  CUDA_OK(cudaFree(good));
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

TEST_F(Errors, ARangeOverTwoAllocationsIsAFault) {
  std::uint64_t* one = allocate();
  std::uint64_t* two = allocate();
  std::uint64_t* lower = std::min(one, two);
  EXPECT_EQ(tk_fill(lower + kWords - 1, 2, 1, nullptr), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

TEST_F(Errors, APlannedFaultComesAtTheCallItIsPlannedFor) {
  world->fail("cudaMalloc", cudaErrorMemoryAllocation, 2);
  void* one = nullptr;
  void* two = nullptr;
  CUDA_OK(cudaMalloc(&one, 8));
  EXPECT_EQ(cudaMalloc(&two, 8), cudaErrorMemoryAllocation);
  CUDA_OK(cudaMalloc(&two, 8));
  CUDA_OK(cudaFree(one));
  CUDA_OK(cudaFree(two));
}

TEST_F(Errors, APlannedFaultCanLastAndBeTakenBack) {
  world->fail("cudaEventRecord", cudaErrorUnknown, 1, -1);
  const cudaEvent_t event = new_event();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorUnknown);
  world->never_fail();
  CUDA_OK(cudaEventRecord(event, nullptr));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Errors, APlannedFaultCanBreakTheContextAfterwards) {
  world->fail("cudaLaunchKernel", cudaErrorLaunchFailure, 1, 1, Fault::kPoison);
  EXPECT_EQ(tk_spin(1, nullptr), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
}

TEST_F(Errors, EveryCallCanBeFailedByName) {
  int count = 0;
  for (const char* call : {"cudaGetDeviceCount", "cudaSetDevice", "cudaFree", "cudaMemGetInfo",
                           "cudaDeviceSynchronize", "cudaStreamSynchronize"}) {
    world->fail(call, cudaErrorUnknown);
  }
  std::size_t bytes = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorUnknown);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorUnknown);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorUnknown);
  EXPECT_EQ(cudaMemGetInfo(&bytes, &bytes), cudaErrorUnknown);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorUnknown);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorUnknown);
}

TEST_F(Errors, CallsAreCounted) {
  for (int i = 0; i < 3; ++i) CUDA_OK(cudaFree(nullptr));
  EXPECT_EQ(world->calls("cudaFree", getpid()), 3U);
  EXPECT_EQ(world->calls("cudaMalloc"), 0U);
}

TEST_F(Errors, NamesAndTextsAreCudas) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

}  // namespace
}  // namespace fakecuda::testing
