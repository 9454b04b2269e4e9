#include "client/core/slot_events.h"

#include <utility>

#include "client/core/host_event.h"
#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease::internal {

absl::StatusOr<SlotEvents> open_events(Importer& importer,
                                       const std::vector<wire::DeviceHandle>& handles,
                                       std::uint32_t slots) {
  SlotEvents events;
  if (handles.empty()) {
    while (events.size() < slots) events.push_back(std::make_unique<HostEvent>(importer));
    return events;
  }
  if (handles.size() != slots) {
    return wire::make_error(wire::ErrorCode::kInternal,
                            fmt::format("{} events for {} slots", handles.size(), slots),
                            "This is a defect of the daemon; please report it.");
  }
  for (const wire::DeviceHandle& handle : handles) {
    auto event = importer.open_event(handle);
    if (!event.ok()) return event.status();
    events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace memlease::internal
