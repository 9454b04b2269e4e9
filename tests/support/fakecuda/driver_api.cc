// The driver's functions that know no default stream.
#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "tests/support/fakecuda/call.h"
#include "tests/support/fakecuda/device.h"
#include "tests/support/fakecuda/host_memory.h"
#include "tests/support/fakecuda/ipc.h"
#include "tests/support/fakecuda/memory.h"
#include "tests/support/fakecuda/queries.h"
#include "tests/support/fakecuda/stream.h"

namespace {

using fakecuda::at;
using fakecuda::Context;
using fakecuda::put;
using fakecuda::Runtime;

cudaError_t allocate_at(Context& context, CUdeviceptr* address, std::size_t bytes) {
  if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
  void* memory = nullptr;
  const cudaError_t error = allocate(context, &memory, bytes);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return error;
}

cudaError_t open(Context& context, CUdeviceptr* address, const CUipcMemHandle& handle,
                 unsigned flags) {
  void* memory = nullptr;
  cudaIpcMemHandle_t same = {};
  std::memcpy(&same, &handle, sizeof same);
  const cudaError_t error =
      import_memory(context, address == nullptr ? nullptr : &memory, same, flags);
  if (error == cudaSuccess) *address = reinterpret_cast<CUdeviceptr>(memory);
  return error;
}

cudaError_t open(Context& context, CUevent* event, const CUipcEventHandle& handle) {
  cudaIpcEventHandle_t same = {};
  std::memcpy(&same, &handle, sizeof same);
  return import_event(context, event, same);
}

cudaError_t name_device(char* name, int size, const Context& context) {
  cudaDeviceProp properties;
  fakecuda::device_properties(context.runtime.world(), context.device, properties);
  if (name == nullptr || size <= 0) return cudaErrorInvalidValue;
  std::strncpy(name, properties.name, static_cast<std::size_t>(size));
  name[size - 1] = '\0';
  return cudaSuccess;
}

cudaError_t attributes(Runtime& runtime, unsigned count, CUpointer_attribute* which, void** data,
                       CUdeviceptr address) {
  if (which == nullptr || data == nullptr) return cudaErrorInvalidValue;
  // What an address does not have is left as 0, and no error.
  for (unsigned i = 0; i < count; ++i) {
    const cudaError_t error = pointer_attribute(runtime, data[i], which[i], address);
    if (error == cudaErrorNotSupported) return error;
    if (error != cudaSuccess)
      std::memset(data[i], 0, which[i] == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE ? 1 : 4);
  }
  return cudaSuccess;
}

}  // namespace

// --- Start

CUresult cuInit(unsigned flags) {
  FAKECUDA_DRIVER(flags != 0                    ? cudaErrorInvalidValue
                  : runtime.device_count() == 0 ? cudaErrorNoDevice
                                                : (initialize_driver(runtime), cudaSuccess));
}
CUresult cuDriverGetVersion(int* version) {
  Runtime* runtime = nullptr;
  if (Runtime::get(runtime) != cudaSuccess) return CUDA_ERROR_NO_DEVICE;
  return static_cast<CUresult>(put(version, runtime->knob(fakecuda::Knob::kDriverVersion)));
}

// --- Devices

CUresult cuDeviceGetCount(int* count) { FAKECUDA_DRIVER(put(count, runtime.device_count())); }
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  FAKECUDA_DRIVER(with_device(runtime, ordinal, [&](Context&) { return put(device, ordinal); }));
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  FAKECUDA_DRIVER(
      with_device(runtime, device, [&](Context& it) { return name_device(name, size, it); }));
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  FAKECUDA_DRIVER(query_uuid(runtime, uuid, device));
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  FAKECUDA_DRIVER(query_attribute(runtime, value, attribute, device));
}
CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  FAKECUDA_DRIVER(query_pci_bus_id(runtime, text, size, device));
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  FAKECUDA_DRIVER(with_device(runtime, device, [&](Context& it) {
    return put(bytes, runtime.world().layout().device[it.device].capacity_bytes);
  }));
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  FAKECUDA_DRIVER(can_access_peer(runtime, can, device, peer));
}

// --- Memory

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  FAKECUDA_DRIVER_CONTEXT(allocate_at(context, address, bytes));
}
CUresult cuMemFree(CUdeviceptr address) { FAKECUDA_DRIVER_CONTEXT(release(context, at(address))); }
CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  FAKECUDA_DRIVER_CONTEXT(memory_info(context, free_bytes, total_bytes));
}
CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  FAKECUDA_DRIVER_CONTEXT(address_range(context.runtime, base, bytes, address));
}
CUresult cuMemHostRegister(void* address, size_t bytes, unsigned flags) {
  FAKECUDA_DRIVER_CONTEXT(register_host(context, address, bytes, flags));
}
CUresult cuMemHostUnregister(void* address) {
  FAKECUDA_DRIVER_CONTEXT(unregister_host(context, address));
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned flags) {
  FAKECUDA_DRIVER_CONTEXT(
      flags != 0 || device == nullptr
          ? cudaErrorInvalidValue
          : host_device_pointer(context.runtime, reinterpret_cast<void**>(device), host));
}
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  FAKECUDA_DRIVER(pointer_attribute(runtime, data, attribute, address));
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data,
                                CUdeviceptr address) {
  FAKECUDA_DRIVER(attributes(runtime, count, which, data, address));
}
// Synchronous copies are synchronous here anyway.
CUresult cuPointerSetAttribute(const void*, CUpointer_attribute attribute, CUdeviceptr address) {
  FAKECUDA_DRIVER(attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && runtime.memory.find(at(address))
                      ? cudaSuccess
                      : cudaErrorInvalidValue);
}

// --- Streams and events

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  FAKECUDA_DRIVER_CONTEXT(create_stream(context, stream, flags, 0));
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  FAKECUDA_DRIVER_CONTEXT(create_stream(context, stream, flags, priority));
}
CUresult cuStreamDestroy(CUstream stream) { FAKECUDA_DRIVER(destroy_stream(runtime, stream)); }
CUresult cuEventCreate(CUevent* event, unsigned flags) {
  FAKECUDA_DRIVER_CONTEXT(create_event(context, event, flags));
}
CUresult cuEventDestroy(CUevent event) { FAKECUDA_DRIVER(destroy_event(runtime, event)); }
CUresult cuEventQuery(CUevent event) { FAKECUDA_DRIVER(query_event(runtime, event)); }
CUresult cuEventSynchronize(CUevent event) { FAKECUDA_DRIVER(synchronize_event(runtime, event)); }

// --- Other processes

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  FAKECUDA_DRIVER_CONTEXT(
      export_memory(context, reinterpret_cast<cudaIpcMemHandle_t*>(handle), at(address)));
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  FAKECUDA_DRIVER_CONTEXT(open(context, address, handle, flags));
}
CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  FAKECUDA_DRIVER_CONTEXT(close_memory(context, at(address)));
}
CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  FAKECUDA_DRIVER_CONTEXT(
      export_event(context, reinterpret_cast<cudaIpcEventHandle_t*>(handle), event));
}
CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  FAKECUDA_DRIVER_CONTEXT(open(context, event, handle));
}
