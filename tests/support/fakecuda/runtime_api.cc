// The runtime's functions that have no variant for the per-thread default stream. Each one checks
// and converts; the work is done elsewhere.
#include <cuda_runtime_api.h>

#include "tests/support/fakecuda/call.h"
#include "tests/support/fakecuda/device.h"
#include "tests/support/fakecuda/host_memory.h"
#include "tests/support/fakecuda/ipc.h"
#include "tests/support/fakecuda/memory.h"
#include "tests/support/fakecuda/queries.h"
#include "tests/support/fakecuda/stream.h"

namespace {

using fakecuda::Context;
using fakecuda::Runtime;
using fakecuda::this_thread;

cudaError_t set_device(Runtime& runtime, int ordinal) {
  unsigned device = 0;
  if (const cudaError_t error = device_at(runtime, ordinal, device); error != cudaSuccess) {
    return error;
  }
  fakecuda::ThreadState& thread = this_thread();
  thread.ordinal = ordinal;
  if (thread.current.empty()) thread.current.push_back(nullptr);
  thread.current.back() = &runtime.primary(ordinal);
  thread.current.back()->use();
  return thread.current.back()->broken();
}

cudaError_t get_device(Runtime& runtime, int* ordinal) {
  if (ordinal == nullptr) return cudaErrorInvalidValue;
  if (runtime.device_count() == 0) return cudaErrorNoDevice;
  const fakecuda::ThreadState& thread = this_thread();
  const bool has = !thread.current.empty() && thread.current.back() != nullptr;
  *ordinal = has ? thread.current.back()->ordinal : thread.ordinal;
  return cudaSuccess;
}

cudaError_t count_devices(Runtime& runtime, int* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  *count = runtime.device_count();
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t get_properties(Runtime& runtime, cudaDeviceProp* properties, int ordinal) {
  unsigned device = 0;
  if (properties == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = device_at(runtime, ordinal, device); error != cudaSuccess) {
    return error;
  }
  fakecuda::device_properties(runtime.world(), device, *properties);
  return cudaSuccess;
}

cudaError_t change_peer(Context& context, int peer, bool enable) {
  unsigned device = 0;
  const cudaError_t error = device_at(context.runtime, peer, device);
  if (error != cudaSuccess) return error;
  return enable ? context.enable_peer(device) : context.disable_peer(device);
}

// Without a world: does the process see a driver?
bool is_there(Runtime*& runtime) { return Runtime::get(runtime) == cudaSuccess; }

}  // namespace

// --- Versions and errors

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  Runtime* runtime = nullptr;
  *version =
      is_there(runtime) ? static_cast<int>(runtime->knob(fakecuda::Knob::kDriverVersion)) : 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaPeekAtLastError() {
  const fakecuda::ThreadState& thread = this_thread();
  if (thread.current.empty() || thread.current.back() == nullptr) return thread.last_error;
  const cudaError_t broken = thread.current.back()->broken();
  return broken != cudaSuccess ? broken : thread.last_error;
}

// What broke the context stays.
cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  this_thread().last_error = cudaSuccess;
  return error;
}

// --- Devices

cudaError_t cudaGetDeviceCount(int* count) { FAKECUDA_RUNTIME(count_devices(runtime, count)); }
cudaError_t cudaGetDevice(int* device) { FAKECUDA_RUNTIME(get_device(runtime, device)); }
cudaError_t cudaSetDevice(int device) { FAKECUDA_RUNTIME(set_device(runtime, device)); }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  FAKECUDA_RUNTIME(device < 0 || device >= runtime.device_count()
                       ? cudaErrorInvalidDevice
                       : (runtime.primary(device).use(), cudaSuccess));
}
cudaError_t cudaDeviceSynchronize() { FAKECUDA_RUNTIME_CONTEXT(context.synchronize()); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  FAKECUDA_RUNTIME(get_properties(runtime, properties, device));
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  FAKECUDA_RUNTIME(query_attribute(runtime, value, attribute, device));
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  FAKECUDA_RUNTIME(query_pci_bus_id(runtime, text, size, device));
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  FAKECUDA_RUNTIME(fakecuda::priority_range(least, greatest));
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  FAKECUDA_RUNTIME(can_access_peer(runtime, can, device, peer));
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(flags != 0 ? cudaErrorInvalidValue : change_peer(context, peer, true));
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  FAKECUDA_RUNTIME_CONTEXT(change_peer(context, peer, false));
}

// --- Memory

cudaError_t cudaMalloc(void** address, size_t bytes) {
  FAKECUDA_RUNTIME_CONTEXT(allocate(context, address, bytes));
}
cudaError_t cudaFree(void* address) { FAKECUDA_RUNTIME_CONTEXT(release(context, address)); }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  FAKECUDA_RUNTIME_CONTEXT(memory_info(context, free_bytes, total_bytes));
}
cudaError_t cudaMallocHost(void** address, size_t bytes) {
  FAKECUDA_RUNTIME_CONTEXT(allocate_host(context, address, bytes, cudaHostAllocDefault));
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(allocate_host(context, address, bytes, flags));
}
cudaError_t cudaFreeHost(void* address) {
  FAKECUDA_RUNTIME_CONTEXT(release_host(context, address));
}
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(register_host(context, address, bytes, flags));
}
cudaError_t cudaHostUnregister(void* address) {
  FAKECUDA_RUNTIME_CONTEXT(unregister_host(context, address));
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(flags != 0 ? cudaErrorInvalidValue
                                      : host_device_pointer(runtime, device, host));
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  FAKECUDA_RUNTIME_CONTEXT(host_flags(runtime, flags, host));
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  FAKECUDA_RUNTIME_CONTEXT(pointer_attributes(runtime, attributes, address));
}

// --- Streams

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  FAKECUDA_RUNTIME_CONTEXT(create_stream(context, stream, cudaStreamDefault, 0));
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(create_stream(context, stream, flags, 0));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  FAKECUDA_RUNTIME_CONTEXT(create_stream(context, stream, flags, priority));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FAKECUDA_RUNTIME_CONTEXT(destroy_stream(runtime, stream));
}

// Makes a context, as the real one was seen to; the driver's function makes none.
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  FAKECUDA_RUNTIME_CONTEXT(fakecuda::exchange_capture_mode(runtime, mode));
}

// --- Events

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  FAKECUDA_RUNTIME_CONTEXT(create_event(context, event, cudaEventDefault));
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(create_event(context, event, flags));
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FAKECUDA_RUNTIME_CONTEXT(destroy_event(runtime, event));
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  FAKECUDA_RUNTIME_CONTEXT(query_event(runtime, event));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAKECUDA_RUNTIME_CONTEXT(synchronize_event(runtime, event));
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  FAKECUDA_RUNTIME_CONTEXT(elapsed_time(runtime, ms, start, end));
}

// --- Other processes

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  FAKECUDA_RUNTIME_CONTEXT(export_memory(context, handle, address));
}
cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned flags) {
  FAKECUDA_RUNTIME_CONTEXT(import_memory(context, address, handle, flags));
}
cudaError_t cudaIpcCloseMemHandle(void* address) {
  FAKECUDA_RUNTIME_CONTEXT(close_memory(context, address));
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  FAKECUDA_RUNTIME_CONTEXT(export_event(context, handle, event));
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  FAKECUDA_RUNTIME_CONTEXT(import_event(context, event, handle));
}
