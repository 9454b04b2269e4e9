// libmemlease_cuda.so's table: both halves, and what both ask about devices.
#include "cuda/plugin.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "cuda/plugin/checker.h"
#include "cuda/plugin/exports.h"
#include "cuda/plugin/imports.h"

namespace memlease::cuda {
namespace {

void describe_error(std::int32_t error, char* text, std::size_t text_bytes) {
  const auto code = static_cast<cudaError_t>(error);
  std::snprintf(text, text_bytes, "%s (%d): %s", cudaGetErrorName(code), error,
                cudaGetErrorString(code));
}

std::int32_t driver_version(std::int32_t* version) { return cudaDriverGetVersion(version); }

std::int32_t device_count(std::int32_t* count) { return cudaGetDeviceCount(count); }

std::int32_t describe_device(std::int32_t ordinal, memlease_cuda_device* device) {
  cudaDeviceProp properties{};
  cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return error;
  int events = 0;
  error = cudaDeviceGetAttribute(&events, cudaDevAttrIpcEventSupport, ordinal);
  if (error != cudaSuccess) return error;
  std::memcpy(device->uuid, properties.uuid.bytes, sizeof device->uuid);
  std::snprintf(device->name, sizeof device->name, "%s", properties.name);
  device->total_bytes = properties.totalGlobalMem;
  device->ordinal = ordinal;
  device->ipc = events != 0 && properties.unifiedAddressing != 0 ? 1 : 0;
  return cudaSuccess;
}

memlease_cuda_table make_table() {
  memlease_cuda_table table{};
  table.abi = MEMLEASE_CUDA_ABI;
  table.size_bytes = sizeof table;
  table.describe_error = describe_error;
  table.driver_version = driver_version;
  table.device_count = device_count;
  table.describe_device = describe_device;
  table.allocate = allocate;
  table.deallocate = deallocate;
  table.open_memory = open_memory;
  table.close_memory = close_memory;
  table.stream_device = stream_device;
  table.is_capturing = is_capturing;
  table.create_stream = create_stream;
  table.synchronize_device = synchronize_device;
  table.orders_by_words = orders_by_words;
  table.write_word = write_word;
  table.wait_for_word = wait_for_word;
  table.check_device = check_device;
  table.mark = mark;
  table.close_mark = close_mark;
  table.query = query;
  table.order = order;
  table.copy = copy;
  table.copy_rows = copy_rows;
  table.register_pages = register_pages;
  table.unregister_pages = unregister_pages;
  table.pointer_device = pointer_device;
  table.release = checker().release;
  table.acquire = checker().acquire;
  table.exited = checker().exited;
  table.saw = checker().saw;
  return table;
}

}  // namespace
}  // namespace memlease::cuda

extern "C" __attribute__((visibility("default"))) const memlease_cuda_table* memlease_cuda_plugin(
    std::uint32_t abi) {
  static const memlease_cuda_table table = memlease::cuda::make_table();
  return abi == MEMLEASE_CUDA_ABI ? &table : nullptr;
}
