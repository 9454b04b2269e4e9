#include "client/ordering/gpu_use.h"

#include <cstddef>
#include <new>
#include <utility>

namespace memlease::internal {

GpuUse& GpuUse::operator=(GpuUse&& other) noexcept {
  GpuUse before(std::move(other));
  std::swap(memory, before.memory);
  std::swap(order, before.order);
  return *this;
}

GpuUse::~GpuUse() {
  if (complete()) return;
  static_cast<void>(order.release());
  for (auto& open : memory) {
    // Never destroyed: one count too many.
    using Open = std::shared_ptr<const void>;
    alignas(Open) std::byte kept[sizeof(Open)];
    new (kept) Open(std::move(open));
  }
}

}  // namespace memlease::internal
