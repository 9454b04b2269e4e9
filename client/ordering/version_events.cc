#include "client/ordering/version_events.h"

#include <utility>

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<VersionEvents>> VersionEvents::open(Importer& importer,
                                                                   ImportCache& imports,
                                                                   const KnownArray& known,
                                                                   InterruptCheck interrupt) {
  auto page =
      imports.event_page(known.rare().events.file, wire::FileKind::kEvents, importer, interrupt);
  if (!page.ok()) return page.status();
  auto events =
      SharedEvents::in(*std::move(page), known.rare().events.offset, known.layout().most, importer);
  if (!events.ok()) return events.status();
  return std::unique_ptr<VersionEvents>(new VersionEvents(importer, known, *std::move(events)));
}

VersionEvents::VersionEvents(Importer& importer, const KnownArray& known, SharedEvents events)
    : importer_(importer),
      array_(known.id),
      layout_(known.layout()),
      events_(std::move(events)),
      recorded_(layout_.most) {}

std::uint64_t VersionEvents::key(std::uint32_t slot) const {
  return (std::uint64_t{1} << 62) | (wire::to_int(array_) << 6) | slot;
}

absl::Status VersionEvents::record(std::uint32_t slot, Stream stream, Usable usable) {
  if (by_host()) return finish(importer_, stream, usable);
  auto status = events_[slot].record(stream);
  if (status.ok()) recorded_[slot].store(events_[slot].recorded());
  return status;
}

bool VersionEvents::complete() {
  for (std::uint32_t slot = 0; slot < layout_.most; ++slot) {
    const std::uint64_t record = recorded_[slot].load();
    if (record == 0) continue;
    const auto complete = events_[slot].complete(record);
    if (complete.ok() && !*complete) return false;
    if (!device_failed(complete.status()) || events_[slot].recorded() != record) continue;
    events_[slot].lose_version();
    lost_.store(true);
  }
  return true;
}

}  // namespace memlease::internal
