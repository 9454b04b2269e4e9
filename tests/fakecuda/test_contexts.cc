// Contexts: what makes one, which one is current, and that the world counts them.
#include <cuda.h>

#include <thread>

#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Contexts : public Fakecuda {
 protected:
  void SetUp() override { ASSERT_EQ(cuInit(0), CUDA_SUCCESS); }
  u32 made(u32 device) const { return world->contexts(getpid(), device); }
  static CUcontext current() {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return context;
  }
  static int device() {
    int ordinal = -1;
    EXPECT_EQ(cudaGetDevice(&ordinal), cudaSuccess);
    return ordinal;
  }
  // A thread begins with no context.
  template <class Work>
  static void on_a_thread(const Work& work) {
    std::thread(work).join();
  }
};

TEST_F(Contexts, SettingADeviceMakesItsPrimaryOne) {
  CUDA_OK(cudaSetDevice(1));
  EXPECT_EQ(made(0), 0U);
  EXPECT_EQ(made(1), 1U);
  CUcontext primary = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
  EXPECT_EQ(current(), primary);
  EXPECT_EQ(made(1), 1U) << "it was there";
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Contexts, QuestionsAboutDevicesMakeNone) {
  int number = 0;
  cudaDeviceProp properties = {};
  CUDA_OK(cudaGetDeviceCount(&number));
  CUDA_OK(cudaGetDevice(&number));
  CUDA_OK(cudaGetDeviceProperties(&properties, 1));
  CUDA_OK(cudaDeviceGetAttribute(&number, cudaDevAttrIpcEventSupport, 1));
  CUDA_OK(cudaDriverGetVersion(&number));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(world->contexts(getpid()), 0U);
  EXPECT_EQ(current(), nullptr);
}

// What takes a handle knows its device, and all the same the runtime makes a context for the
// thread.
TEST_F(Contexts, EveryOtherCallOfTheRuntimesMakesOneOnTheThreadsDevice) {
  CUDA_OK(cudaSetDevice(1));
  const cudaEvent_t event = new_event();
  const cudaStream_t stream = new_stream();
  ASSERT_EQ(made(0), 0U);
  on_a_thread([&] { EXPECT_EQ(cudaEventQuery(event), cudaSuccess); });
  EXPECT_EQ(made(0), 1U);
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Contexts, TheRuntimesExchangeOfModesMakesOneTheDriversNone) {
  on_a_thread([&] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(world->contexts(getpid()), 0U);
    cudaStreamCaptureMode same = cudaStreamCaptureModeGlobal;
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&same), cudaSuccess);
    EXPECT_EQ(same, cudaStreamCaptureModeRelaxed) << "one mode for both";
    EXPECT_EQ(made(0), 1U);
  });
}

TEST_F(Contexts, OneThatIsNotPrimaryIsCurrentAndCounted) {
  CUDA_OK(cudaSetDevice(0));
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(current(), own);
  EXPECT_EQ(device(), 1);
  EXPECT_EQ(made(1), 1U);
  // The runtime works in it.
  const cudaStream_t stream = new_stream();
  CUcontext its = nullptr;
  EXPECT_EQ(cuStreamGetCtx(stream, &its), CUDA_SUCCESS);
  EXPECT_EQ(its, own);
  CUDA_OK(cudaStreamDestroy(stream));
  CUcontext primary = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 1), CUDA_SUCCESS);
  EXPECT_NE(primary, own);
  EXPECT_EQ(made(1), 2U);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
  EXPECT_EQ(device(), 0) << "the one below";
}

TEST_F(Contexts, SettingADeviceTakesTheCurrentOnesPlace) {
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
  CUDA_OK(cudaSetDevice(0));
  EXPECT_NE(current(), own);
  EXPECT_EQ(cuCtxSetCurrent(own), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
}

TEST_F(Contexts, NoneMayBeCurrent) {
  CUDA_OK(cudaSetDevice(1));
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(current(), nullptr);
  CUcontext left = nullptr;
  EXPECT_EQ(cuCtxPopCurrent(&left), CUDA_ERROR_INVALID_CONTEXT) << "the stack is empty";
}

TEST_F(Contexts, OneThatIsDestroyedIsKnownAsSuch) {
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(own), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorContextIsDestroyed) << "it was there twice";
  EXPECT_EQ(cuCtxSetCurrent(own), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
}

// What belongs to a context is for that one.
TEST_F(Contexts, AnEventIsRecordedByStreamsOfItsOwnAndWaitedForByAll) {
  const cudaEvent_t event = new_event();
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
  const cudaStream_t stream = new_stream();
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaStreamWaitEvent(stream, event, 0));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaEventDestroy(event));
  EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
}

}  // namespace
}  // namespace fakecuda::testing
