// What an array on a device has open: nothing of it may be closed before its work is done.
#pragma once

#include <memory>
#include <vector>

#include "client/ordering/gpu_order.h"

namespace memlease::internal {

// Not thread-safe: one owner, who takes it out of the array when nobody uses that any more.
struct GpuUse {
  GpuUse() = default;
  GpuUse(GpuUse&&) noexcept = default;
  // Ends what was here as the destructor does.
  GpuUse& operator=(GpuUse&& other) noexcept;
  // Closes what is open, or leaves it to ImportCache::close_unused(). Work that will not end keeps
  // it open until the process exits.
  ~GpuUse();
  // Does not wait.
  bool complete() const { return order == nullptr || order->complete(); }

  OpenMemory memory;
  std::unique_ptr<GpuOrder> order;  // nullptr for the host
};

}  // namespace memlease::internal
