#include "cuda/plugin/exports.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "cuda/plugin/checker.h"
#include "cuda/plugin/idle_stream.h"
#include "cuda/plugin/on_device.h"

namespace memlease::cuda {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == MEMLEASE_CUDA_HANDLE_BYTES);

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

}  // namespace memlease::cuda
