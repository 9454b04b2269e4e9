#include "cuda/plugin/driver.h"

#include <atomic>
#include <memory>

namespace memlease::cuda {
namespace {

// CUDA 12.0 is where each of them has the type that is written here.
constexpr unsigned kVersion = 12000;

template <class Function>
cudaError_t find(const char* name, Function*& function) {
  void* found = nullptr;
  auto result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableLegacyStream, &result);
  if (error != cudaSuccess) return error;
  function = reinterpret_cast<Function*>(found);
  return found != nullptr ? cudaSuccess : cudaErrorCallRequiresNewerDriver;
}

cudaError_t fill(Driver& driver) {
  CUresult(CUDAAPI * initialize)(unsigned flags) = nullptr;
  cudaError_t error = find("cuInit", initialize);
  const auto also = [&](const char* name, auto*& function) {
    if (error == cudaSuccess) error = find(name, function);
  };
  also("cuDeviceGet", driver.device_get);
  also("cuDeviceGetAttribute", driver.device_get_attribute);
  also("cuDevicePrimaryCtxRetain", driver.primary_context_retain);
  also("cuCtxGetCurrent", driver.context_get_current);
  also("cuCtxSetCurrent", driver.context_set_current);
  also("cuCtxGetDevice", driver.context_get_device);
  also("cuStreamGetCtx", driver.stream_get_context);
  also("cuPointerGetAttribute", driver.pointer_get_attribute);
  also("cuStreamWriteValue64", driver.stream_write_value);
  also("cuStreamWaitValue64", driver.stream_wait_value);
  also("cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode);
  return error == cudaSuccess ? error_of(initialize(0)) : error;
}

}  // namespace

// Without a lock, which another thread of a forked process might have held.
cudaError_t find_driver(const Driver*& driver) {
  static std::atomic<const Driver*> known = nullptr;
  driver = known.load(std::memory_order_acquire);
  if (driver != nullptr) return cudaSuccess;
  auto found = std::make_unique<Driver>();
  if (const cudaError_t error = fill(*found); error != cudaSuccess) return error;
  // Whoever comes second takes the first one's.
  if (known.compare_exchange_strong(driver, found.get())) driver = found.release();
  return cudaSuccess;
}

}  // namespace memlease::cuda
