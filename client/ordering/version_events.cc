#include "client/ordering/version_events.h"

#include <utility>

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<VersionEvents>> VersionEvents::open(Importer& importer,
                                                                   const OpenAnswer& answer) {
  auto events = open_events(importer, answer.write_events, answer.spec.slots);
  if (!events.ok()) return events.status();
  return std::unique_ptr<VersionEvents>(new VersionEvents(importer, answer, std::move(*events)));
}

VersionEvents::VersionEvents(Importer& importer, const OpenAnswer& answer, RowEvents events)
    : importer_(importer),
      array_(answer.id),
      layout_(answer.spec.slots, answer.spec.max_slots),
      events_(std::move(events)),
      recorded_(layout_.most) {}

absl::Status VersionEvents::open(std::uint32_t slot,
                                 const std::optional<wire::DeviceHandle>& handle) {
  if (is_open(slot)) return absl::OkStatus();
  auto event = open_event(importer_, handle);
  if (!event.ok()) return event.status();
  events_.add(slot, std::move(*event));
  return absl::OkStatus();
}

std::uint64_t VersionEvents::key(std::uint32_t slot) const {
  return (std::uint64_t{1} << 62) | (wire::to_int(array_) << 6) | slot;
}

absl::Status VersionEvents::record(std::uint32_t slot, Stream stream) {
  recorded_[slot].store(true);
  return (*this)[slot].record(stream);
}

bool VersionEvents::complete() const {
  for (std::uint32_t slot = 0; slot < layout_.most; ++slot) {
    if (!recorded_[slot].load()) continue;
    const auto complete = (*this)[slot].complete();
    if (complete.ok() && !*complete) return false;
  }
  return true;
}

}  // namespace memlease::internal
