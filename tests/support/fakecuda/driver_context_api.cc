// The driver's functions about contexts, and which one is a thread's current one.
#include <cuda.h>

#include "tests/support/fakecuda/call.h"
#include "tests/support/fakecuda/stream.h"

namespace {

using fakecuda::Context;
using fakecuda::put;
using fakecuda::Runtime;
using fakecuda::this_thread;

Context* top() {
  const auto& stack = this_thread().current;
  return stack.empty() ? nullptr : stack.back();
}

// What a context's handle stands for; it must exist.
cudaError_t look_up(Runtime& runtime, CUcontext handle, Context*& context) {
  context = runtime.context_of(handle);
  if (context == nullptr) return cudaErrorDeviceUninitialized;
  return context->exists() ? cudaSuccess : cudaErrorContextIsDestroyed;
}

// In the place of the stack's top; null takes that away.
cudaError_t set_current(Runtime& runtime, CUcontext handle) {
  auto& stack = this_thread().current;
  Context* context = nullptr;
  if (handle != nullptr) {
    const cudaError_t error = look_up(runtime, handle, context);
    if (error != cudaSuccess) return error;
  }
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return cudaSuccess;
}

cudaError_t push(Runtime& runtime, CUcontext handle) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  Context* context = nullptr;
  const cudaError_t error = look_up(runtime, handle, context);
  if (error == cudaSuccess) this_thread().current.push_back(context);
  return error;
}

cudaError_t pop(CUcontext* handle) {
  auto& stack = this_thread().current;
  if (stack.empty()) return cudaErrorDeviceUninitialized;
  if (handle != nullptr) *handle = Runtime::handle_of(stack.back());
  stack.pop_back();
  return cudaSuccess;
}

cudaError_t create(Runtime& runtime, CUcontext* handle, const CUctxCreateParams* parameters,
                   CUdevice device) {
  return with_device(runtime, device, [&](Context&) {
    if (handle == nullptr || parameters != nullptr) return cudaErrorInvalidValue;
    Context& context = runtime.make_context(device);
    this_thread().current.push_back(&context);
    return put(handle, Runtime::handle_of(&context));
  });
}

// Whoever else has it current finds it destroyed.
cudaError_t destroy(Runtime& runtime, CUcontext handle) {
  Context* context = nullptr;
  const cudaError_t error = look_up(runtime, handle, context);
  if (error != cudaSuccess) return error;
  if (context->primary) return cudaErrorDeviceUninitialized;
  if (top() == context) this_thread().current.pop_back();
  context->destroy();
  return cudaSuccess;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  FAKECUDA_DRIVER(with_device(runtime, device, [&](Context& it) {
    if (context == nullptr) return cudaErrorInvalidValue;
    it.retain();
    return put(context, Runtime::handle_of(&it));
  }));
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  FAKECUDA_DRIVER(with_device(runtime, device, [&](Context& it) {
    return it.release() ? cudaSuccess : cudaErrorDeviceUninitialized;
  }));
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  FAKECUDA_DRIVER(with_device(runtime, device, [&](Context& it) {
    if (flags != nullptr) *flags = 0;
    return put(active, it.exists() ? 1 : 0);
  }));
}
CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams* parameters, unsigned, CUdevice device) {
  FAKECUDA_DRIVER(create(runtime, context, parameters, device));
}
CUresult cuCtxDestroy(CUcontext context) { FAKECUDA_DRIVER(destroy(runtime, context)); }
CUresult cuCtxGetCurrent(CUcontext* context) {
  FAKECUDA_DRIVER(put(context, Runtime::handle_of(top())));
}
CUresult cuCtxSetCurrent(CUcontext context) { FAKECUDA_DRIVER(set_current(runtime, context)); }
CUresult cuCtxPushCurrent(CUcontext context) { FAKECUDA_DRIVER(push(runtime, context)); }
CUresult cuCtxPopCurrent(CUcontext* context) { FAKECUDA_DRIVER(pop(context)); }
CUresult cuCtxGetDevice(CUdevice* device) { FAKECUDA_DRIVER_CONTEXT(put(device, context.ordinal)); }
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  FAKECUDA_DRIVER_CONTEXT(fakecuda::priority_range(least, greatest));
}
CUresult cuCtxSynchronize() { FAKECUDA_DRIVER_CONTEXT(context.synchronize()); }
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  static_assert(static_cast<int>(CU_STREAM_CAPTURE_MODE_RELAXED) ==
                static_cast<int>(cudaStreamCaptureModeRelaxed));
  FAKECUDA_DRIVER(
      fakecuda::exchange_capture_mode(runtime, reinterpret_cast<cudaStreamCaptureMode*>(mode)));
}
