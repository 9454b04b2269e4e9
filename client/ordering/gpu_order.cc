#include "client/ordering/gpu_order.h"

#include <utility>

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<GpuOrder>> GpuOrder::open(Importer& importer, ImportCache& imports,
                                                         const OpenAnswer& answer,
                                                         InterruptCheck interrupt) {
  auto versions = VersionEvents::open(importer, imports, answer, interrupt);
  if (!versions.ok()) return versions.status();
  return std::unique_ptr<GpuOrder>(new GpuOrder(std::move(*versions), imports));
}

}  // namespace memlease::internal
