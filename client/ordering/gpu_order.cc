#include "client/ordering/gpu_order.h"

#include <utility>

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<GpuOrder>> GpuOrder::open(Importer& importer, ImportCache& imports,
                                                         const KnownArray& known,
                                                         InterruptCheck interrupt) {
  auto versions = VersionEvents::open(importer, imports, known, interrupt);
  if (!versions.ok()) return versions.status();
  return std::unique_ptr<GpuOrder>(new GpuOrder(std::move(*versions), imports));
}

}  // namespace memlease::internal
