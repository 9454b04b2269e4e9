#include "cuda/imports.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "cuda/checker.h"
#include "cuda/on_device.h"

namespace memlease::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

// An event of this process, recorded; null after an error. Waits that stand keep what they need of
// one that is destroyed.
cudaError_t record_here(void* stream, cudaEvent_t& event) {
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  error = cudaEventRecord(event, stream_of(stream));
  if (error != cudaSuccess) {
    (void)cudaEventDestroy(event);
    event = nullptr;
  }
  return error;
}

cudaError_t order_here(void* before, void* after) {
  cudaEvent_t here = nullptr;
  cudaError_t error = record_here(before, here);
  if (error != cudaSuccess) return error;
  error = cudaStreamWaitEvent(stream_of(after), here, 0);
  const cudaError_t destroyed = cudaEventDestroy(here);
  return error == cudaSuccess ? destroyed : error;
}

}  // namespace

std::int32_t open_memory(std::int32_t ordinal, const memlease_cuda_handle* handle, void** address) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  cudaIpcMemHandle_t exported;
  std::memcpy(&exported, handle->bytes, sizeof exported);
  hear(*handle);
  return cudaIpcOpenMemHandle(address, exported, cudaIpcMemLazyEnablePeerAccess);
}

std::int32_t close_memory(std::int32_t ordinal, void* address) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  return cudaIpcCloseMemHandle(address);
}

std::int32_t open_event(std::int32_t ordinal, const memlease_cuda_handle* handle, void** event) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  cudaIpcEventHandle_t exported;
  std::memcpy(&exported, handle->bytes, sizeof exported);
  cudaEvent_t opened = nullptr;
  const cudaError_t error = cudaIpcOpenEventHandle(&opened, exported);
  *event = opened;
  return error;
}

std::int32_t close_event(std::int32_t ordinal, void* event) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  return cudaEventDestroy(event_of(event));
}

std::int32_t stream_device(void* stream, std::int32_t* ordinal) {
  return cudaStreamGetDevice(stream_of(stream), ordinal);
}

std::int32_t is_capturing(void* stream, std::int32_t* capturing) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream_of(stream), &status);
  *capturing = status == cudaStreamCaptureStatusNone ? 0 : 1;
  return error;
}

std::int32_t create_stream(std::int32_t ordinal, void** stream) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  cudaStream_t made = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
  *stream = made;
  if (error == cudaSuccess && checker().keep_stream != nullptr) checker().keep_stream();
  return error;
}

std::int32_t query_stream(void* stream) { return cudaStreamQuery(stream_of(stream)); }

std::int32_t synchronize_device(std::int32_t ordinal) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  return cudaDeviceSynchronize();
}

std::int32_t record(void* event, void* stream) {
  return cudaEventRecord(event_of(event), stream_of(stream));
}

std::int32_t record_joined(std::int32_t ordinal, void* event, void* stream, void* joining) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  cudaError_t error = cudaStreamWaitEvent(stream_of(joining), event_of(event), 0);
  if (error == cudaSuccess) error = order_here(stream, joining);
  if (error == cudaSuccess) error = cudaEventRecord(event_of(event), stream_of(joining));
  return error;
}

std::int32_t mark(std::int32_t ordinal, void* stream, void** event) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  cudaEvent_t made = nullptr;
  const cudaError_t error = record_here(stream, made);
  *event = made;
  return error;
}

std::int32_t order(std::int32_t ordinal, void* before, void* after) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return device.error();
  return order_here(before, after);
}

std::int32_t wait(void* stream, void* event) {
  return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0);
}

std::int32_t query(void* event) { return cudaEventQuery(event_of(event)); }

std::int32_t copy(void* to, const void* from, std::uint64_t size_bytes, void* stream) {
  return cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream_of(stream));
}

std::int32_t pointer_device(const void* address, std::int32_t* ordinal) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, address);
  const bool device = attributes.type == cudaMemoryTypeDevice;
  *ordinal = error == cudaSuccess && device ? attributes.device : -1;
  return error;
}

}  // namespace memlease::cuda
