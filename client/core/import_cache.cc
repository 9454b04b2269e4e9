#include "client/core/import_cache.h"

#include <utility>

#include "proto/wire/board.h"

namespace memlease::internal {

absl::StatusOr<std::shared_ptr<DeviceMemory>> ImportCache::get(wire::FileId file,
                                                               Importer& importer) {
  const std::lock_guard lock(mutex_);
  const auto known = memory_.find(to_int(file));
  if (known != memory_.end()) {
    if (auto memory = known->second.lock()) return memory;
  }
  auto imported = control_.import_memory(file);
  if (!imported.ok()) return imported.status();
  // Open again: what was closed before needs no saying any more.
  std::erase(closed_.memory, file);
  auto opened = importer.open_memory(imported->handle, imported->size_bytes);
  if (!opened.ok()) {
    closed_.memory.push_back(file);
    return opened.status();
  }
  // Somebody may have opened it anew since the last use ended.
  std::shared_ptr<DeviceMemory> memory(opened->release(), [this, file](DeviceMemory* open) {
    const std::lock_guard closing(mutex_);
    delete open;
    const auto last = memory_.find(to_int(file));
    if (last == memory_.end() || !last->second.expired()) return;
    memory_.erase(last);
    closed_.memory.push_back(file);
  });
  memory_[to_int(file)] = memory;
  return memory;
}

absl::StatusOr<std::shared_ptr<SlotEvents>> ImportCache::read_events(wire::RowRef row,
                                                                     std::uint32_t slots,
                                                                     Importer& importer) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t key = wire::pack_subscriber(row);
  const auto known = events_.find(key);
  if (known != events_.end()) {
    if (auto events = known->second.lock()) return events;
  }
  const auto handles = control_.import_events(row);
  if (!handles.ok()) return handles.status();
  std::erase(closed_.events, row);
  auto opened = open_events(importer, *handles, slots);
  if (!opened.ok()) {
    closed_.events.push_back(row);
    return opened.status();
  }
  std::shared_ptr<SlotEvents> events(new SlotEvents(std::move(*opened)),
                                     [this, key, row](SlotEvents* open) {
                                       const std::lock_guard closing(mutex_);
                                       delete open;
                                       const auto last = events_.find(key);
                                       if (last == events_.end() || !last->second.expired()) return;
                                       events_.erase(last);
                                       closed_.events.push_back(row);
                                     });
  events_[key] = events;
  return events;
}

void ImportCache::flush() {
  const std::lock_guard lock(mutex_);
  if (closed_.memory.empty() && closed_.events.empty()) return;
  // An error means that the daemon has gone, or that the session has ended: then it knows.
  control_.close_imports(std::exchange(closed_, {})).IgnoreError();
}

}  // namespace memlease::internal
