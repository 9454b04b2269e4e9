#include "client/ordering/gpu_order.h"

#include <utility>

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<GpuOrder>> GpuOrder::open(Importer& importer, ImportCache& imports,
                                                         const OpenAnswer& answer) {
  auto versions = VersionEvents::open(importer, answer);
  if (!versions.ok()) return versions.status();
  return std::unique_ptr<GpuOrder>(new GpuOrder(std::move(*versions), imports));
}

absl::Status GpuOrder::open_slot(ControlPort& control, wire::ArrayId array, std::uint32_t slot,
                                 bool reads, InterruptCheck interrupt) {
  if (versions_->is_open(slot) && (!reads || reader_.has_event(slot))) return absl::OkStatus();
  const auto events = control.slot_events(array, slot, reads, interrupt);
  if (!events.ok()) return events.status();
  auto status = versions_->open(slot, events->write);
  return status.ok() && reads ? reader_.open_event(slot, events->read) : status;
}

}  // namespace memlease::internal
