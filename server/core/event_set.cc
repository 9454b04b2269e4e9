#include "server/core/event_set.h"

#include <algorithm>

#include "wire/error.h"

namespace memlease::server {

absl::StatusOr<std::shared_ptr<EventSet>> EventSet::create(DeviceBackend& backend,
                                                           const FileTable& files,
                                                           std::uint32_t slots) {
  static const auto none = std::make_shared<EventSet>();
  if (!backend.has_events()) return none;
  const auto dispose = [&files](EventSet* last) { files.dispose(std::shared_ptr<EventSet>(last)); };
  std::shared_ptr<EventSet> set(new EventSet, dispose);
  for (std::uint32_t s = 0; s < slots; ++s) {
    auto event = backend.create_event();
    if (!event.ok()) {
      if (wire::code_of(event.status()) != wire::ErrorCode::kOutOfMemory) return event.status();
      auto without = std::make_shared<EventSet>();
      without->shortage_ = event.status();
      return without;
    }
    set->events_.push_back(std::move(*event));
  }
  return set;
}

std::vector<wire::DeviceHandle> EventSet::handles() const {
  std::vector<wire::DeviceHandle> handles;
  handles.reserve(events_.size());
  for (const auto& event : events_) handles.push_back(event->handle());
  return handles;
}

bool EventSet::all_complete() const {
  return std::all_of(events_.begin(), events_.end(),
                     [](const auto& event) { return event->complete(); });
}

void EventSet::re_record() {
  for (const auto& event : events_) event->re_record().IgnoreError();
}

}  // namespace memlease::server
