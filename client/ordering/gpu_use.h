// What an array on a device has open: nothing of it may be closed before its work is done.
#pragma once

#include <memory>
#include <vector>

#include "client/ordering/gpu_order.h"

namespace memlease::internal {

// Each keeps a segment open.
using OpenMemory = std::vector<std::shared_ptr<const void>>;

struct GpuUse {
  GpuUse() = default;
  GpuUse(GpuUse&&) noexcept = default;
  // Ends what was here as the destructor does.
  GpuUse& operator=(GpuUse&& other) noexcept;
  // Work that will not end keeps it open until the process exits.
  ~GpuUse();
  bool complete() const { return order == nullptr || order->complete(); }

  OpenMemory memory;
  std::unique_ptr<GpuOrder> order;  // nullptr for the host
};

}  // namespace memlease::internal
