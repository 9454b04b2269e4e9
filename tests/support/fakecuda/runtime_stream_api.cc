// The runtime's functions that know a default stream. Compiled twice: see on_stream.h.
#include <cuda_runtime_api.h>

#include "tests/support/fakecuda/copy.h"
#include "tests/support/fakecuda/entry_points.h"
#include "tests/support/fakecuda/event.h"
#include "tests/support/fakecuda/host_function.h"
#include "tests/support/fakecuda/on_stream.h"

namespace {

using fakecuda::Copy;
using fakecuda::put;

cudaError_t end_capture(fakecuda::Runtime& runtime, fakecuda::Stream& stream, cudaGraph_t* graph) {
  if (graph == nullptr) return cudaErrorInvalidValue;
  // No work can be captured, so the graph is always an empty one, which is not modelled.
  *graph = nullptr;
  return runtime.captures.end(stream);
}

// Asking does no harm, but for this stream there is no answer.
cudaError_t capture_status(fakecuda::Runtime& runtime, const fakecuda::Stream& stream,
                           cudaStreamCaptureStatus* status) {
  if (stream.context.captures_implicitly(stream)) return cudaErrorStreamCaptureImplicit;
  return put(status, runtime.captures.status(stream));
}

}  // namespace

// --- Copies

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  FAKECUDA_RUNTIME_CONTEXT(
      FAKECUDA_ON(nullptr, copy(runtime, it, Copy{"cudaMemcpy", to, from, bytes, kind, true})));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(
      stream, copy(runtime, it, Copy{"cudaMemcpyAsync", to, from, bytes, kind, false})));
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  FAKECUDA_RUNTIME_CONTEXT(
      FAKECUDA_ON(nullptr, copy_rows(runtime, it, Copy{"cudaMemcpy2D", to, from, width, kind, true},
                                     to_pitch, from_pitch, height)));
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(
      stream, copy_rows(runtime, it, Copy{"cudaMemcpy2DAsync", to, from, width, kind, false},
                        to_pitch, from_pitch, height)));
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(nullptr, fill(runtime, it, "cudaMemset", to, value, bytes)));
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  FAKECUDA_RUNTIME_CONTEXT(
      FAKECUDA_ON(stream, fill(runtime, it, "cudaMemsetAsync", to, value, bytes)));
}

// --- Streams

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, it.synchronize()));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, it.query()));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, wait_event(runtime, event, it)));
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, put(flags, it.flags)));
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, put(priority, it.priority)));
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, put(id, it.number)));
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, put(device, it.context.ordinal)));
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, capture_status(runtime, it, status)));
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, capture_status(runtime, it, status)));
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, runtime.captures.begin(it, mode)));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, end_capture(runtime, it, graph)));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  FAKECUDA_RUNTIME_CONTEXT(
      function == nullptr ? cudaErrorInvalidValue
                          : FAKECUDA_ON(stream, launch_host_function(it, [=] { function(data); })));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                  unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(function == nullptr || flags != 0
                               ? cudaErrorInvalidValue
                               : FAKECUDA_ON(stream, launch_host_function(it, [=] {
                                               function(stream, cudaSuccess, data);
                                             })));
}

// --- Events

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, record_event(runtime, event, it)));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  FAKECUDA_RUNTIME_CONTEXT(FAKECUDA_ON(stream, record_event(runtime, event, it)));
}

// --- The driver's functions

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  FAKECUDA_RUNTIME(entry_point(runtime, symbol, function, version,
                               flags == cudaEnablePerThreadDefaultStream ||
                                   (flags == cudaEnableDefault && fakecuda::kPerThread),
                               result));
}
