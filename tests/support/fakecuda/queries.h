// What both APIs say of devices and addresses.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace fakecuda {

class Runtime;

cudaError_t device_at(Runtime& runtime, int ordinal, unsigned& device);
cudaError_t query_attribute(Runtime& runtime, int* value, int attribute, int ordinal);
cudaError_t query_uuid(Runtime& runtime, CUuuid* uuid, int ordinal);
cudaError_t query_pci_bus_id(Runtime& runtime, char* text, int size, int ordinal);
cudaError_t can_access_peer(Runtime& runtime, int* can, int ordinal, int peer);

cudaError_t pointer_attributes(Runtime& runtime, cudaPointerAttributes* attributes,
                               const void* address);
// One of the driver's attributes.
cudaError_t pointer_attribute(Runtime& runtime, void* data, CUpointer_attribute attribute,
                              CUdeviceptr address);
cudaError_t address_range(Runtime& runtime, CUdeviceptr* base, std::size_t* bytes,
                          CUdeviceptr address);

}  // namespace fakecuda
