// The driver's functions that know a default stream. Compiled twice: see on_stream.h.
#include <cuda.h>

#include "tests/support/fakecuda/copy.h"
#include "tests/support/fakecuda/entry_points.h"
#include "tests/support/fakecuda/event.h"
#include "tests/support/fakecuda/host_function.h"
#include "tests/support/fakecuda/on_stream.h"
#include "tests/support/fakecuda/word.h"

namespace {

using fakecuda::at;
using fakecuda::Copy;
using fakecuda::put;

// The legacy and per-thread streams belong to the current context, which there must be.
template <class Work>
cudaError_t with_stream(fakecuda::Runtime& runtime, CUstream handle, const Work& work) {
  const bool named =
      handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD;
  fakecuda::Context* context = nullptr;
  const cudaError_t error = named ? cudaSuccess : fakecuda::driver_context(context);
  return error == cudaSuccess ? fakecuda::on_stream(runtime, handle, work) : error;
}

}  // namespace

#define ON(handle, expression) \
  FAKECUDA_DRIVER(with_stream( \
      runtime, handle,         \
      [&]([[maybe_unused]] fakecuda::Stream& it) -> cudaError_t { return expression; }))

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  ON(nullptr,
     copy(runtime, it, Copy{"cuMemcpy", at(to), at(from), bytes, cudaMemcpyDefault, true}));
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ON(stream,
     copy(runtime, it, Copy{"cuMemcpyAsync", at(to), at(from), bytes, cudaMemcpyDefault, false}));
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  ON(nullptr,
     copy(runtime, it, Copy{"cuMemcpyHtoD", at(to), from, bytes, cudaMemcpyHostToDevice, true}));
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  ON(nullptr,
     copy(runtime, it, Copy{"cuMemcpyDtoH", to, at(from), bytes, cudaMemcpyDeviceToHost, true}));
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  ON(stream, copy(runtime, it,
                  Copy{"cuMemcpyHtoDAsync", at(to), from, bytes, cudaMemcpyHostToDevice, false}));
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ON(stream, copy(runtime, it,
                  Copy{"cuMemcpyDtoHAsync", to, at(from), bytes, cudaMemcpyDeviceToHost, false}));
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ON(stream,
     copy(runtime, it,
          Copy{"cuMemcpyDtoDAsync", at(to), at(from), bytes, cudaMemcpyDeviceToDevice, false}));
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  ON(stream, fill(runtime, it, "cuMemsetD8Async", at(to), value, bytes));
}

CUresult cuStreamSynchronize(CUstream stream) { ON(stream, it.synchronize()); }
CUresult cuStreamQuery(CUstream stream) { ON(stream, it.query()); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ON(stream, wait_event(runtime, event, it));
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  ON(stream, put(context, fakecuda::Runtime::handle_of(&it.context)));
}
CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) { ON(stream, put(flags, it.flags)); }
CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  ON(stream, put(priority, it.priority));
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* id) { ON(stream, put(id, it.number)); }
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  ON(stream, put(device, it.context.ordinal));
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  ON(stream, it.context.captures_implicitly(it) ? cudaErrorStreamCaptureImplicit
                                                : put(status, runtime.captures.status(it)));
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  ON(stream, record_event(runtime, event, it));
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  ON(stream, function == nullptr ? cudaErrorInvalidValue
                                 : launch_host_function(it, [=] { function(data); }));
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned flags) {
  ON(stream, write_word(runtime, it, at(address), value, sizeof value, flags));
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned flags) {
  ON(stream, write_word(runtime, it, at(address), value, sizeof value, flags));
}
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned flags) {
  ON(stream, wait_word(runtime, it, at(address), value, sizeof value, flags));
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned flags) {
  ON(stream, wait_word(runtime, it, at(address), value, sizeof value, flags));
}

// The names stand as they are written, the functions are the variants.
template <>
void* fakecuda::driver_stream_function<fakecuda::kPerThread>(std::string_view symbol) {
  static const struct {
    std::string_view name;
    void* function;
  } kFunctions[] = {
      {"cuMemcpy", reinterpret_cast<void*>(&cuMemcpy)},
      {"cuMemcpyAsync", reinterpret_cast<void*>(&cuMemcpyAsync)},
      {"cuMemcpyHtoD", reinterpret_cast<void*>(&cuMemcpyHtoD)},
      {"cuMemcpyDtoH", reinterpret_cast<void*>(&cuMemcpyDtoH)},
      {"cuMemcpyHtoDAsync", reinterpret_cast<void*>(&cuMemcpyHtoDAsync)},
      {"cuMemcpyDtoHAsync", reinterpret_cast<void*>(&cuMemcpyDtoHAsync)},
      {"cuMemcpyDtoDAsync", reinterpret_cast<void*>(&cuMemcpyDtoDAsync)},
      {"cuMemsetD8Async", reinterpret_cast<void*>(&cuMemsetD8Async)},
      {"cuStreamSynchronize", reinterpret_cast<void*>(&cuStreamSynchronize)},
      {"cuStreamQuery", reinterpret_cast<void*>(&cuStreamQuery)},
      {"cuStreamWaitEvent", reinterpret_cast<void*>(&cuStreamWaitEvent)},
      {"cuStreamGetCtx", reinterpret_cast<void*>(&cuStreamGetCtx)},
      {"cuStreamGetFlags", reinterpret_cast<void*>(&cuStreamGetFlags)},
      {"cuStreamGetPriority", reinterpret_cast<void*>(&cuStreamGetPriority)},
      {"cuStreamGetId", reinterpret_cast<void*>(&cuStreamGetId)},
      {"cuStreamGetDevice", reinterpret_cast<void*>(&cuStreamGetDevice)},
      {"cuStreamIsCapturing", reinterpret_cast<void*>(&cuStreamIsCapturing)},
      {"cuEventRecord", reinterpret_cast<void*>(&cuEventRecord)},
      {"cuLaunchHostFunc", reinterpret_cast<void*>(&cuLaunchHostFunc)},
      {"cuStreamWriteValue32", reinterpret_cast<void*>(&cuStreamWriteValue32)},
      {"cuStreamWriteValue64", reinterpret_cast<void*>(&cuStreamWriteValue64)},
      {"cuStreamWaitValue32", reinterpret_cast<void*>(&cuStreamWaitValue32)},
      {"cuStreamWaitValue64", reinterpret_cast<void*>(&cuStreamWaitValue64)},
  };
  for (const auto& entry : kFunctions) {
    if (entry.name == symbol) return entry.function;
  }
  return nullptr;
}
