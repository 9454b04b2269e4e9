#include "cuda/plugin/exports.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "cuda/plugin/checker.h"
#include "cuda/plugin/idle_stream.h"
#include "cuda/plugin/on_device.h"

namespace memlease::cuda {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == MEMLEASE_CUDA_HANDLE_BYTES);
static_assert(sizeof(cudaIpcEventHandle_t) == MEMLEASE_CUDA_HANDLE_BYTES);

cudaError_t zero(void* address, std::uint64_t size_bytes) {
  const IdleStream stream;
  if (stream.error() != cudaSuccess) return stream.error();
  cudaError_t error = cudaMemsetAsync(address, 0, size_bytes, stream.get());
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream.get());
  return error;
}

}  // namespace

std::int32_t allocate(std::int32_t ordinal, std::uint64_t size_bytes, void** address,
                      memlease_cuda_handle* handle) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  cudaError_t error = cudaMalloc(address, size_bytes);
  if (error != cudaSuccess) return error;
  cudaIpcMemHandle_t exported;
  error = zero(*address, size_bytes);
  if (error == cudaSuccess) error = cudaIpcGetMemHandle(&exported, *address);
  if (error != cudaSuccess) {
    (void)cudaFree(*address);
    return error;
  }
  std::memcpy(handle->bytes, &exported, sizeof exported);
  checker_release(*handle, HandleFact::kExported);
  checker_release(*handle, HandleFact::kClosed);  // perhaps nobody opens it
  return cudaSuccess;
}

std::int32_t deallocate(std::int32_t ordinal, void* address, const memlease_cuda_handle* handle) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  checker_acquire(*handle, HandleFact::kClosed);
  return cudaFree(address);
}

std::int32_t create_event(std::int32_t ordinal, void** event, memlease_cuda_handle* handle) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  cudaEvent_t made = nullptr;
  // R-SYNC-1.
  cudaError_t error =
      cudaEventCreateWithFlags(&made, cudaEventInterprocess | cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  cudaIpcEventHandle_t exported;
  error = cudaIpcGetEventHandle(&exported, made);
  if (error != cudaSuccess) {
    (void)cudaEventDestroy(made);
    return error;
  }
  std::memcpy(handle->bytes, &exported, sizeof exported);
  *event = made;
  return cudaSuccess;
}

std::int32_t destroy_event(std::int32_t ordinal, void* event) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  return cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

std::int32_t re_record(std::int32_t ordinal, void* event) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  const IdleStream stream;
  if (stream.error() != cudaSuccess) return stream.error();
  return cudaEventRecord(static_cast<cudaEvent_t>(event), stream.get());
}

}  // namespace memlease::cuda
