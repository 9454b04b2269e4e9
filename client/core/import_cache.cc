#include "client/core/import_cache.h"

#include <utility>

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
  std::shared_ptr<DeviceMemory> memory(opened->release(), [this, file](DeviceMemory* open) {
    delete open;
    const std::lock_guard closing(mutex_);
    closed_.memory.push_back(file);
  });
  memory_[to_int(file)] = memory;
  return memory;
}

void ImportCache::note_closed(wire::RowRef row) {
  const std::lock_guard lock(mutex_);
  closed_.events.push_back(row);
}

void ImportCache::flush() {
  const std::lock_guard lock(mutex_);
  if (closed_.memory.empty() && closed_.events.empty()) return;
  // An error means that the daemon has gone, or that the session has ended: then it knows.
  control_.close_imports(std::exchange(closed_, {})).IgnoreError();
}

}  // namespace memlease::internal
