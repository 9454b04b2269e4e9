// The driver's functions, as a program finds them: through the runtime, by name.
#include <cuda.h>

#include <cstring>
#include <set>

#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Driver : public Fakecuda {
 protected:
  // Null if there is none. 12000 and base names are what the runtime's callers are to use.
  template <class Function>
  static Function* find(const char* name, unsigned version = 12000) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableLegacyStream, &found);
    EXPECT_EQ(error == cudaSuccess && found == cudaDriverEntryPointSuccess, function != nullptr);
    return reinterpret_cast<Function*>(function);
  }
  void SetUp() override { ASSERT_EQ(cuInit(0), CUDA_SUCCESS); }
};

TEST_F(Driver, FunctionsAreFoundByTheirBaseNames) {
  EXPECT_EQ(find<decltype(cuStreamWriteValue64)>("cuStreamWriteValue64"), &cuStreamWriteValue64);
  EXPECT_EQ(find<decltype(cuDeviceGetUuid)>("cuDeviceGetUuid"), &cuDeviceGetUuid);
  EXPECT_EQ(find<decltype(cuMemGetAddressRange)>("cuMemGetAddressRange"), &cuMemGetAddressRange);
  EXPECT_EQ(find<decltype(cuInit)>("cuNoSuchThing"), nullptr);
}

TEST_F(Driver, AVersionAboveTheDriversIsAnError) {
  void* function = &function;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSuccess;
  EXPECT_NE(cudaGetDriverEntryPointByVersion("cuInit", &function, 99000, cudaEnableDefault, &found),
            cudaSuccess);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(found, cudaDriverEntryPointVersionNotSufficent);
}

TEST_F(Driver, LookingUpMakesNoContext) {
  find<decltype(cuInit)>("cuInit");
  EXPECT_EQ(world->contexts(getpid()), 0U);
}

TEST_F(Driver, NothingWorksBeforeItIsInitialised) {
  fakecuda_detach();
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
}

TEST_F(Driver, WhatNeedsAContextSaysSo) {
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  EXPECT_EQ(cuMemAlloc(&address, 8), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(world->contexts(getpid()), 0U);
}

TEST_F(Driver, ThePrimaryContextIsRetainedPushedAndReleased) {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int active = -1;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  EXPECT_EQ(world->contexts(getpid()), 1U);
  CUcontext current = context;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr) << "retaining makes it current nowhere";
  EXPECT_EQ(cuCtxPushCurrent(context), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  std::thread([] {
    CUdevice none = -1;
    EXPECT_EQ(cuCtxGetDevice(&none), CUDA_ERROR_INVALID_CONTEXT) << "another thread has none";
  }).join();
  EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Driver, BothApisShareTheContext) {
  std::uint64_t* data = allocate();
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_NE(current, nullptr);
  const cudaStream_t stream = new_stream();
  CUcontext of_stream = nullptr;
  EXPECT_EQ(cuStreamGetCtx(stream, &of_stream), CUDA_SUCCESS);
  EXPECT_EQ(of_stream, current);
  EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(data)), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(Driver, AnAddressTellsOfItsAllocation) {
  std::uint64_t* data = allocate(100);
  const auto address = reinterpret_cast<CUdeviceptr>(data + 10);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, address), CUDA_SUCCESS);
  EXPECT_EQ(base, reinterpret_cast<CUdeviceptr>(data));
  EXPECT_EQ(bytes, 800U);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, base + 800), CUDA_ERROR_NOT_FOUND);

  CUmemorytype type = {};
  int ordinal = -1;
  bool exportable = false;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
  void* out[] = {&type, &ordinal, &exportable};
  EXPECT_EQ(cuPointerGetAttributes(3, which, out, address), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(ordinal, 0);
  EXPECT_TRUE(exportable);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(&type)),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_OK(cudaFree(data));
}

TEST_F(Driver, ABufferIsToldFromTheOneThatWasThereBefore) {
  std::set<unsigned long long> ids;
  for (int i = 0; i < 3; ++i) {
    std::uint64_t* data = allocate(1);
    unsigned long long id = 0;
    EXPECT_EQ(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                    reinterpret_cast<CUdeviceptr>(data)),
              CUDA_SUCCESS);
    ids.insert(id);
    CUDA_OK(cudaFree(data));
  }
  EXPECT_EQ(ids.size(), 3U);
}

TEST_F(Driver, DevicesHaveTheSameUuidInBothApis) {
  CUuuid uuid = {};
  cudaDeviceProp properties;
  EXPECT_EQ(cuDeviceGetUuid(&uuid, 1), CUDA_SUCCESS);
  CUDA_OK(cudaGetDeviceProperties(&properties, 1));
  EXPECT_EQ(std::memcmp(uuid.bytes, properties.uuid.bytes, sizeof uuid.bytes), 0);
}

TEST_F(Driver, WithoutAWorldThereIsNoDevice) {
  fakecuda_detach();
  unsetenv("FAKECUDA_WORLD");
  EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
}

}  // namespace
}  // namespace fakecuda::testing
