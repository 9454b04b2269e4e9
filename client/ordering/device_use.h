// What an array on a device has open: nothing of it may be closed before its work is done.
#pragma once

#include <memory>
#include <vector>

#include "client/ordering/device_order.h"
#include "client/ordering/importer.h"

namespace memlease::internal {

struct DeviceUse {
  DeviceUse() = default;
  DeviceUse(DeviceUse&&) noexcept = default;
  DeviceUse& operator=(DeviceUse&&) noexcept = default;
  // Work that will not end keeps it open until the process exits.
  ~DeviceUse();
  bool complete() const { return order == nullptr || order->complete(); }

  std::vector<std::shared_ptr<DeviceMemory>> memory;
  std::unique_ptr<DeviceOrder> order;  // nullptr for the host
};

}  // namespace memlease::internal
