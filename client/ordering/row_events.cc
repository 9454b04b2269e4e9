#include "client/ordering/row_events.h"

#include <utility>

#include "client/ordering/host_event.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {

absl::StatusOr<std::unique_ptr<DeviceEvent>> open_event(
    Importer& importer, const std::optional<wire::DeviceHandle>& handle) {
  if (!handle) return std::make_unique<HostEvent>(importer);
  return importer.open_event(*handle);
}

absl::StatusOr<RowEvents> open_events(Importer& importer,
                                      const std::vector<wire::DeviceHandle>& handles,
                                      std::uint32_t slots) {
  RowEvents events;
  if (handles.empty()) {
    while (events.size() < slots) events.push_back(std::make_unique<HostEvent>(importer));
    return events;
  }
  if (handles.size() != slots) {
    return wire::defect(fmt::format("{} events for {} slots", handles.size(), slots));
  }
  for (const wire::DeviceHandle& handle : handles) {
    auto event = importer.open_event(handle);
    if (!event.ok()) return event.status();
    events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace memlease::internal
