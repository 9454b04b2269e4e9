#include "tests/support/fakecuda/capture.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/support/fakecuda/runtime.h"
#include "tests/support/fakecuda/stream.h"

namespace fakecuda {
namespace {

bool is_mode(cudaStreamCaptureMode mode) {
  return mode == cudaStreamCaptureModeGlobal || mode == cudaStreamCaptureModeThreadLocal ||
         mode == cudaStreamCaptureModeRelaxed;
}

}  // namespace

bool potentially_unsafe(std::string_view function) {
  static constexpr std::string_view kUnsafe[] = {
      "cudaMalloc",
      "cudaFree",
      "cudaMallocHost",
      "cudaHostAlloc",
      "cudaFreeHost",
      "cudaHostRegister",
      "cudaHostUnregister",
      "cudaMemGetInfo",
      "cudaDeviceSynchronize",
      "cudaStreamCreate",
      "cudaStreamCreateWithFlags",
      "cudaStreamCreateWithPriority",
      "cudaStreamSynchronize",
      "cudaStreamQuery",
      "cudaEventQuery",
      "cudaEventSynchronize",
      "cudaIpcGetMemHandle",
      "cudaIpcOpenMemHandle",
      "cudaIpcCloseMemHandle",
      "cudaIpcGetEventHandle",
      "cudaIpcOpenEventHandle",
      "cudaDeviceEnablePeerAccess",
      "cudaDeviceDisablePeerAccess",
      "cuMemAlloc",
      "cuMemFree",
      "cuMemGetInfo",
      "cuMemHostRegister",
      "cuMemHostUnregister",
      "cuCtxCreate",
      "cuCtxDestroy",
      "cuCtxSynchronize",
      "cuStreamCreate",
      "cuStreamCreateWithPriority",
      "cuStreamSynchronize",
      "cuStreamQuery",
      "cuEventQuery",
      "cuEventSynchronize",
      "cuIpcGetMemHandle",
      "cuIpcOpenMemHandle",
      "cuIpcCloseMemHandle",
      "cuIpcGetEventHandle",
      "cuIpcOpenEventHandle",
  };
  return std::ranges::find(kUnsafe, function) != std::end(kUnsafe);
}

std::vector<Captures::Capture>::iterator Captures::find(const Stream& stream) {
  return std::ranges::find_if(captures_, [&](const Capture& it) { return it.stream == &stream; });
}

cudaError_t exchange_capture_mode(const Runtime& runtime, cudaStreamCaptureMode* mode) {
  if (mode == nullptr || !is_mode(*mode)) return cudaErrorInvalidValue;
  if (runtime.knob(Knob::kExchangeIgnored) != 0) return cudaSuccess;
  std::swap(*mode, this_thread().capture_mode);
  return cudaSuccess;
}

cudaError_t Captures::begin(Stream& stream, cudaStreamCaptureMode mode) {
  if (stream.kind == AgentKind::kLegacyStream) return cudaErrorStreamCaptureUnsupported;
  if (!is_mode(mode)) return cudaErrorInvalidValue;
  const std::scoped_lock lock(mutex_);
  if (find(stream) != captures_.end()) return cudaErrorIllegalState;
  captures_.push_back({&stream, mode, this_thread().number, false});
  stream.capturing = true;
  ++count_;
  return cudaSuccess;
}

cudaError_t Captures::end(Stream& stream) {
  const std::scoped_lock lock(mutex_);
  const auto capture = find(stream);
  if (capture == captures_.end()) return cudaErrorIllegalState;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != this_thread().number) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool lost = capture->lost;
  captures_.erase(capture);
  stream.capturing = false;
  --count_;
  return lost ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

void Captures::forget(Stream& stream) {
  if (count_ == 0) return;
  const std::scoped_lock lock(mutex_);
  const auto capture = find(stream);
  if (capture == captures_.end()) return;
  captures_.erase(capture);
  --count_;
}

cudaStreamCaptureStatus Captures::status(const Stream& stream) const {
  if (count_ == 0) return cudaStreamCaptureStatusNone;
  const std::scoped_lock lock(mutex_);
  for (const Capture& capture : captures_) {
    if (capture.stream != &stream) continue;
    return capture.lost ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  }
  return cudaStreamCaptureStatusNone;
}

// Prohibited: in the global mode by a capture of the thread's own that is not relaxed, and by one
// in the global mode of anybody's; in the thread's mode by the first alone; else by none.
cudaError_t Captures::refuse_unsafe() {
  if (count_ == 0) return cudaSuccess;
  const ThreadState& thread = this_thread();
  if (thread.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  const bool all = thread.capture_mode == cudaStreamCaptureModeGlobal;
  cudaError_t error = cudaSuccess;
  const std::scoped_lock lock(mutex_);
  for (Capture& capture : captures_) {
    const bool own =
        capture.thread == thread.number && capture.mode != cudaStreamCaptureModeRelaxed;
    if (!own && !(all && capture.mode == cudaStreamCaptureModeGlobal)) continue;
    capture.lost = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t Captures::refuse(const Concerns& concerns, cudaError_t error) {
  if (count_ == 0) return cudaSuccess;
  cudaError_t refused = cudaSuccess;
  const std::scoped_lock lock(mutex_);
  for (Capture& capture : captures_) {
    if (!concerns(*capture.stream)) continue;
    capture.lost = true;
    refused = error;
  }
  return refused;
}

bool Captures::any(const Concerns& concerns) const {
  if (count_ == 0) return false;
  const std::scoped_lock lock(mutex_);
  return std::ranges::any_of(captures_, [&](const Capture& it) { return concerns(*it.stream); });
}

}  // namespace fakecuda
