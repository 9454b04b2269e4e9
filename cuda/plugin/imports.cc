#include "cuda/plugin/imports.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "cuda/plugin/checker.h"
#include "cuda/plugin/on_device.h"

namespace memlease::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

// An event of this process, of the stream's context, recorded; null after an error. Waits that
// stand keep what they need of one that is destroyed.
cudaError_t record_here(std::int32_t ordinal, void* stream, cudaEvent_t& event) {
  const OnDevice device(ordinal, stream);
  if (device.error() != cudaSuccess) return device.error();
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  error = cudaEventRecord(event, stream_of(stream));
  if (error != cudaSuccess) {
    (void)cudaEventDestroy(event);
    event = nullptr;
  }
  return error;
}

// In the device's primary context.
cudaError_t order_here(std::int32_t ordinal, void* before, void* after) {
  cudaEvent_t here = nullptr;
  cudaError_t error = record_here(ordinal, before, here);
  if (error != cudaSuccess) return error;
  error = cudaStreamWaitEvent(stream_of(after), here, 0);
  const cudaError_t destroyed = cudaEventDestroy(here);
  return error == cudaSuccess ? destroyed : error;
}

// The caller gets the error from here. That it be the thread's last one, too, would make the
// caller's next launch look as if it had failed. Errors that stay are not cleared by this.
std::int32_t answer(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) (void)cudaGetLastError();
  return error;
}

}  // namespace

std::int32_t open_memory(std::int32_t ordinal, const memlease_cuda_handle* handle, void** address) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  cudaIpcMemHandle_t exported;
  std::memcpy(&exported, handle->bytes, sizeof exported);
  checker_acquire(*handle, HandleFact::kExported);
  return answer(cudaIpcOpenMemHandle(address, exported, cudaIpcMemLazyEnablePeerAccess));
}

std::int32_t close_memory(std::int32_t ordinal, void* address, const memlease_cuda_handle* handle) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  checker_release(*handle, HandleFact::kClosed);
  return answer(cudaIpcCloseMemHandle(address));
}

std::int32_t stream_device(void* stream, std::int32_t* ordinal) {
  const OnDevice device(-1, stream);
  if (device.error() != cudaSuccess) return answer(device.error());
  return error_of(device.driver().context_get_device(ordinal));
}

std::int32_t is_capturing(std::int32_t ordinal, void* stream, std::int32_t* capturing) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream_of(stream), &status);
  *capturing = status == cudaStreamCaptureStatusNone ? 0 : 1;
  return answer(error);
}

std::int32_t create_stream(std::int32_t ordinal, void** stream) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  cudaStream_t made = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
  *stream = made;
  if (error == cudaSuccess && checker().keep_stream != nullptr) checker().keep_stream();
  return answer(error);
}

std::int32_t synchronize_device(std::int32_t ordinal) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  // The one question about captures that does no harm, whose answer is an error.
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(cudaStreamLegacy, &status);
  return answer(error == cudaSuccess ? cudaDeviceSynchronize() : error);
}

std::int32_t orders_by_words(std::int32_t ordinal, std::int32_t* does) {
  int words = 0;
  int read_only = 0;
  int same_address = 0;
  const OnDevice none;
  if (none.error() != cudaSuccess) return answer(none.error());
  const Driver& driver = none.driver();
  CUdevice device = 0;
  CUresult result = driver.device_get(&device, ordinal);
  const auto ask = [&](CUdevice_attribute what, int& value) {
    if (result == CUDA_SUCCESS) result = driver.device_get_attribute(&value, what, device);
  };
  ask(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, words);
  ask(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, read_only);
  ask(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, same_address);
  *does = words != 0 && read_only != 0 && same_address != 0 ? 1 : 0;
  return answer(error_of(result));
}

// In the stream's own context: words can be reached from all, by the host's address.
std::int32_t write_word(std::int32_t ordinal, void* word, std::uint64_t value, void* stream) {
  const OnDevice device(ordinal, stream);
  if (device.error() != cudaSuccess) return answer(device.error());
  const auto at = reinterpret_cast<CUdeviceptr>(word);
  return answer(error_of(device.driver().stream_write_value(stream_of(stream), at, value,
                                                            CU_STREAM_WRITE_VALUE_DEFAULT)));
}

std::int32_t wait_for_word(std::int32_t ordinal, const void* word, std::uint64_t value,
                           void* stream) {
  const OnDevice device(ordinal, stream);
  if (device.error() != cudaSuccess) return answer(device.error());
  const auto at = reinterpret_cast<CUdeviceptr>(word);
  return answer(error_of(
      device.driver().stream_wait_value(stream_of(stream), at, value, CU_STREAM_WAIT_VALUE_GEQ)));
}

// Any question about a stream is answered by an error that stays.
std::int32_t check_device(std::int32_t ordinal, void* stream) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  const cudaError_t error = cudaStreamQuery(stream_of(stream));
  return error == cudaErrorNotReady ? cudaSuccess : answer(error);
}

std::int32_t mark(std::int32_t ordinal, void* stream, void** mark) {
  cudaEvent_t made = nullptr;
  const cudaError_t error = record_here(ordinal, stream, made);
  *mark = made;
  return answer(error);
}

std::int32_t close_mark(std::int32_t ordinal, void* mark) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  return answer(cudaEventDestroy(event_of(mark)));
}

std::int32_t order(std::int32_t ordinal, void* before, void* after) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  return answer(order_here(ordinal, before, after));
}

std::int32_t query(std::int32_t ordinal, void* mark) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  return answer(cudaEventQuery(event_of(mark)));
}

std::int32_t copy(std::int32_t ordinal, void* to, const void* from, std::uint64_t size_bytes,
                  void* stream) {
  const OnDevice device(ordinal, stream);
  if (device.error() != cudaSuccess) return answer(device.error());
  return answer(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream_of(stream)));
}

// Rows that are too far from each other for a copy of CUDA's go one by one.
std::int32_t copy_rows(std::int32_t ordinal, const memlease_cuda_rows* rows, void* stream) {
  const OnDevice device(ordinal, stream);
  if (device.error() != cudaSuccess) return answer(device.error());
  auto* const on = stream_of(stream);
  constexpr std::uint64_t kLongestPitch = 0x7fffffff;  // cudaDevAttrMaxPitch of every GPU so far
  if (std::max(rows->to_pitch, rows->from_pitch) <= kLongestPitch) {
    return answer(cudaMemcpy2DAsync(rows->to, rows->to_pitch, rows->from, rows->from_pitch,
                                    rows->row_bytes, rows->count, cudaMemcpyDefault, on));
  }
  auto* to = static_cast<std::byte*>(rows->to);
  const auto* from = static_cast<const std::byte*>(rows->from);
  for (std::uint64_t i = 0; i < rows->count; ++i) {
    const cudaError_t error = cudaMemcpyAsync(to, from, rows->row_bytes, cudaMemcpyDefault, on);
    if (error != cudaSuccess) return answer(error);
    to += rows->to_pitch;
    from += rows->from_pitch;
  }
  return MEMLEASE_CUDA_OK;
}

std::int32_t register_pages(std::int32_t ordinal, void* pages, std::uint64_t size_bytes,
                            std::int32_t read_only) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  const unsigned flags =
      cudaHostRegisterPortable | (read_only != 0 ? cudaHostRegisterReadOnly : 0U);
  return answer(cudaHostRegister(pages, size_bytes, flags));
}

std::int32_t unregister_pages(std::int32_t ordinal, void* pages) {
  const OnDevice device(ordinal);
  if (device.error() != cudaSuccess) return answer(device.error());
  return answer(cudaHostUnregister(pages));
}

// The driver knows this without a context.
std::int32_t pointer_device(const void* address, std::int32_t* ordinal) {
  *ordinal = -1;
  const OnDevice device;
  if (device.error() != cudaSuccess) return answer(device.error());
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  const auto ask = [&](CUpointer_attribute what, auto& value) {
    return device.driver().pointer_get_attribute(&value, what, at);
  };
  unsigned type = 0;
  CUresult result = ask(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, type);
  if (result == CUDA_ERROR_INVALID_VALUE) return cudaSuccess;  // memory that CUDA does not know
  unsigned managed = 0;  // a flag, of which the driver writes a whole word
  if (result == CUDA_SUCCESS) result = ask(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed);
  if (result != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE || managed != 0) {
    return error_of(result);
  }
  return error_of(ask(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, *ordinal));
}

}  // namespace memlease::cuda
