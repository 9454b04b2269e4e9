#include "tests/support/fakecuda/queries.h"

#include <cstring>

#include "tests/support/fakecuda/device.h"
#include "tests/support/fakecuda/runtime.h"

namespace fakecuda {
namespace {

const void* pointer(CUdeviceptr address) { return reinterpret_cast<const void*>(address); }

template <class T>
cudaError_t put(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
  return cudaSuccess;
}

}  // namespace

cudaError_t device_at(Runtime& runtime, int ordinal, unsigned& device) {
  if (runtime.device_count() == 0) return cudaErrorNoDevice;
  if (ordinal < 0 || ordinal >= runtime.device_count()) return cudaErrorInvalidDevice;
  device = runtime.primary(ordinal).device;
  return cudaSuccess;
}

cudaError_t query_attribute(Runtime& runtime, int* value, int attribute, int ordinal) {
  unsigned device = 0;
  if (value == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = device_at(runtime, ordinal, device); error != cudaSuccess) {
    return error;
  }
  return device_attribute(runtime.world(), device, attribute, *value) ? cudaSuccess
                                                                      : cudaErrorInvalidValue;
}

cudaError_t query_uuid(Runtime& runtime, CUuuid* uuid, int ordinal) {
  unsigned device = 0;
  if (uuid == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = device_at(runtime, ordinal, device); error != cudaSuccess) {
    return error;
  }
  std::memcpy(uuid->bytes, runtime.world().layout().device[device].uuid.data(), sizeof uuid->bytes);
  return cudaSuccess;
}

cudaError_t query_pci_bus_id(Runtime& runtime, char* text, int size, int ordinal) {
  unsigned device = 0;
  if (const cudaError_t error = device_at(runtime, ordinal, device); error != cudaSuccess) {
    return error;
  }
  const std::string id = pci_bus_id(device);
  if (text == nullptr || size <= static_cast<int>(id.size())) return cudaErrorInvalidValue;
  std::memcpy(text, id.c_str(), id.size() + 1);
  return cudaSuccess;
}

cudaError_t can_access_peer(Runtime& runtime, int* can, int ordinal, int peer) {
  unsigned device = 0;
  unsigned other = 0;
  if (can == nullptr) return cudaErrorInvalidValue;
  if (device_at(runtime, ordinal, device) != cudaSuccess ||
      device_at(runtime, peer, other) != cudaSuccess) {
    return cudaErrorInvalidDevice;
  }
  *can = device != other && runtime.knob(Knob::kPeerAccess) != 0 ? 1 : 0;
  return cudaSuccess;
}

cudaError_t pointer_attributes(Runtime& runtime, cudaPointerAttributes* attributes,
                               const void* address) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  const MappingPtr mapping = runtime.memory.find(address);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;  // cudaInvalidDeviceId
  auto* const same = const_cast<void*>(address);
  if (mapping == nullptr) {
    attributes->hostPointer = same;
    return cudaSuccess;
  }
  attributes->type = mapping->on_device() ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->device = mapping->ordinal;
  attributes->devicePointer = same;
  attributes->hostPointer = mapping->on_device() ? nullptr : same;
  return cudaSuccess;
}

cudaError_t pointer_attribute(Runtime& runtime, void* data, CUpointer_attribute attribute,
                              CUdeviceptr address) {
  if (data == nullptr) return cudaErrorInvalidValue;
  const MappingPtr mapping = runtime.memory.find(pointer(address));
  if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) return put(data, mapping != nullptr ? 1 : 0);
  if (mapping == nullptr) return cudaErrorInvalidValue;
  const bool device = mapping->on_device();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(data, Runtime::handle_of(mapping->context != nullptr
                                              ? mapping->context
                                              : &runtime.primary(mapping->ordinal)));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(data, device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return device ? cudaErrorInvalidValue : put(data, address);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(data, static_cast<unsigned long long>(mapping->allocation));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(data, 0U);  // a whole word, as the driver writes it
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(data, mapping->ordinal);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(data, mapping->kind == Mapping::Kind::kAllocated);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, static_cast<CUdeviceptr>(mapping->base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, mapping->bytes);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(data, mapping->read_only() ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                            : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    default:
      return cudaErrorNotSupported;
  }
}

cudaError_t address_range(Runtime& runtime, CUdeviceptr* base, std::size_t* bytes,
                          CUdeviceptr address) {
  const MappingPtr mapping = runtime.memory.find(pointer(address));
  // The driver says "not found" here.
  if (mapping == nullptr) return cudaErrorSymbolNotFound;
  if (base != nullptr) *base = mapping->base;
  if (bytes != nullptr) *bytes = mapping->bytes;
  return cudaSuccess;
}

}  // namespace fakecuda
