#include "client/ordering/version_events.h"

#include <utility>

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<VersionEvents>> VersionEvents::open(Importer& importer,
                                                                   const OpenAnswer& answer) {
  auto events = open_events(importer, answer.write_events, answer.spec.slots);
  if (!events.ok()) return events.status();
  return std::unique_ptr<VersionEvents>(new VersionEvents(importer, answer.id, std::move(*events)));
}

VersionEvents::VersionEvents(Importer& importer, wire::ArrayId array, RowEvents events)
    : importer_(importer), array_(array), events_(std::move(events)), recorded_(events_.size()) {}

std::uint64_t VersionEvents::key(std::uint32_t slot) const {
  return (std::uint64_t{1} << 62) | (wire::to_int(array_) << 6) | slot;
}

absl::Status VersionEvents::record(std::uint32_t slot, Stream stream) {
  recorded_[slot].store(true);
  return events_[slot]->record(stream);
}

bool VersionEvents::complete() const {
  for (std::uint32_t slot = 0; slot < slots(); ++slot) {
    if (!recorded_[slot].load()) continue;
    const auto complete = events_[slot]->complete();
    if (complete.ok() && !*complete) return false;
  }
  return true;
}

}  // namespace memlease::internal
