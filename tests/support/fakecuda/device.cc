#include "tests/support/fakecuda/device.h"

#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "tests/support/fakecuda/world.h"

namespace fakecuda {
namespace {

constexpr int kMajor = 9;
constexpr const char* kName = "fakecuda device";

// A number, or an unambiguous beginning of a UUID; -1 if there is none.
int device_named(const Layout& layout, const std::string& word) {
  int found = -1;
  for (u32 i = 0; i < layout.devices; ++i) {
    if (word == std::to_string(i)) return static_cast<int>(i);
    if (word.rfind("GPU-", 0) != 0 || uuid_text(layout.device[i]).rfind(word, 0) != 0) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

}  // namespace

std::vector<u32> visible_devices(const Layout& layout) {
  std::vector<u32> devices;
  const char* wanted = std::getenv("CUDA_VISIBLE_DEVICES");
  if (wanted == nullptr) {
    for (u32 i = 0; i < layout.devices; ++i) devices.push_back(i);
    return devices;
  }
  std::istringstream words(wanted);
  for (std::string word; std::getline(words, word, ',');) {
    const int device = device_named(layout, word);
    if (device < 0) break;
    // Naming one twice leaves none, as the driver has it.
    if (std::count(devices.begin(), devices.end(), static_cast<u32>(device)) != 0) return {};
    devices.push_back(static_cast<u32>(device));
  }
  return devices;
}

std::string uuid_text(const Device& device) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", device.uuid[i]);
    text += byte;
  }
  return text;
}

std::string pci_bus_id(u32 device) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", device + 1);
  return text;
}

bool device_attribute(const World& world, u32 device, int attribute, int& value) {
  const auto knob = [&](Knob which) { return static_cast<int>(world.knob(which)); };
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      value = 1024;
      return true;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      value = 0x7fffffff;
      return true;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      value = 32;
      return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
      value = 1;
      return true;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      value = static_cast<int>(device) + 1;
      return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      value = kMajor;
      return true;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
      value = knob(Knob::kReadOnlyRegister);
      return true;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
      value = knob(Knob::kRegisteredInPlace);
      return true;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
      value = knob(Knob::kStreamMemoryOps);
      return true;
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
      value = knob(Knob::kIpcEvents);
      return true;
    default:
      // Whatever else there is, this device cannot do: virtual memory management, pools, managed
      // memory, the deprecated stream memory operations, flushing of remote writes.
      value = 0;
      return attribute > 0 && attribute < CU_DEVICE_ATTRIBUTE_MAX;
  }
}

void device_properties(const World& world, u32 device, cudaDeviceProp& properties) {
  const Device& entry = world.layout().device[device];
  const auto attribute = [&](int which) {
    int value = 0;
    device_attribute(world, device, which, value);
    return value;
  };
  properties = {};
  std::strncpy(properties.name, kName, sizeof properties.name - 1);
  std::memcpy(properties.uuid.bytes, entry.uuid.data(), entry.uuid.size());
  properties.totalGlobalMem = entry.capacity_bytes;
  properties.warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  properties.major = kMajor;
  properties.multiProcessorCount = 1;
  properties.asyncEngineCount = 1;
  properties.canMapHostMemory = 1;
  properties.concurrentKernels = 1;
  properties.unifiedAddressing = 1;
  properties.hostRegisterSupported = 1;
  properties.pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  properties.hostRegisterReadOnlySupported =
      attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
  properties.ipcEventSupported = attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
}

}  // namespace fakecuda
