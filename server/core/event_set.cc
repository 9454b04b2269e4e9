#include "server/core/event_set.h"

#include <algorithm>
#include <utility>

#include "wire/error.h"

namespace memlease::server {

absl::StatusOr<std::shared_ptr<EventSet>> EventSet::create(DeviceBackend& backend,
                                                           const FileTable& files,
                                                           std::uint32_t slots) {
  static const auto none = std::make_shared<EventSet>();
  if (!backend.has_events()) return none;
  const auto dispose = [&files](EventSet* last) { files.dispose(std::shared_ptr<EventSet>(last)); };
  std::shared_ptr<EventSet> set(new EventSet, dispose);
  set->backend_ = &backend;
  set->regular_ = slots;
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
  if (empty()) return handles;
  handles.reserve(regular_);
  for (std::uint32_t s = 0; s < regular_; ++s) handles.push_back(events_[s]->handle());
  return handles;
}

absl::Status EventSet::add(std::uint32_t slot) {
  if (empty() || has(slot)) return absl::OkStatus();
  auto event = backend_->create_event();
  if (!event.ok()) return event.status();
  if (slot >= events_.size()) events_.resize(slot + 1);
  events_[slot] = std::move(*event);
  return absl::OkStatus();
}

absl::Status EventSet::add_for_life(std::uint32_t slot) {
  const std::uint64_t bit = std::uint64_t{1} << slot;
  if ((without_ & bit) != 0) return absl::OkStatus();
  auto status = add(slot);
  if (status.ok() || wire::code_of(status) != wire::ErrorCode::kOutOfMemory) return status;
  without_ |= bit;
  shortage_ = std::move(status);
  return absl::OkStatus();
}

std::optional<wire::DeviceHandle> EventSet::handle(std::uint32_t slot) const {
  if (!has(slot)) return std::nullopt;
  return events_[slot]->handle();
}

bool EventSet::all_complete() const {
  return std::all_of(events_.begin(), events_.end(),
                     [](const auto& event) { return event == nullptr || event->complete(); });
}

void EventSet::re_record() {
  for (const auto& event : events_) {
    if (event != nullptr) event->re_record().IgnoreError();
  }
}

}  // namespace memlease::server
