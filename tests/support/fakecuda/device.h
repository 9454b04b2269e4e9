// The devices of a world as one process sees them, and what they say of themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

class Context;
class World;

// As CUDA_VISIBLE_DEVICES says: numbers or UUIDs; the first that does not exist ends the list.
std::vector<u32> visible_devices(const Layout& layout);
// "GPU-01234567-89ab-..."
std::string uuid_text(const Device& device);
std::string pci_bus_id(u32 device);

// False: no such attribute.
bool device_attribute(const World& world, u32 device, int attribute, int& value);
void device_properties(const World& world, u32 device, cudaDeviceProp& properties);

}  // namespace fakecuda
