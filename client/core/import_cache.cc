#include "client/core/import_cache.h"

#include <utility>

#include "proto/wire/board.h"

namespace memlease::internal {

template <typename Id, typename Opened, typename Ask, typename Open>
absl::StatusOr<std::shared_ptr<Opened>> ImportCache::share(Known<Opened>& known,
                                                           std::vector<Id>& closed,
                                                           std::uint64_t key, Id id, Ask ask,
                                                           Open open) {
  const std::lock_guard lock(mutex_);
  if (const auto found = known.find(key); found != known.end()) {
    if (auto opened = found->second.lock()) return opened;
  }
  const auto handles = ask();
  if (!handles.ok()) return handles.status();
  // Open again: what was closed before needs no saying any more.
  std::erase(closed, id);
  absl::StatusOr<std::unique_ptr<Opened>> opened = open(*handles);
  if (!opened.ok()) {
    closed.push_back(id);
    return opened.status();
  }
  // Somebody may have opened it anew since the last use ended.
  std::shared_ptr<Opened> shared(opened->release(), [this, &known, &closed, key, id](Opened* last) {
    const std::lock_guard closing(mutex_);
    delete last;
    const auto found = known.find(key);
    if (found == known.end() || !found->second.expired()) return;
    known.erase(found);
    closed.push_back(id);
  });
  known[key] = shared;
  return shared;
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> ImportCache::get(wire::FileId file,
                                                               Importer& importer) {
  return share(
      memory_, closed_.memory, to_int(file), file, [&] { return control_.import_memory(file); },
      [&](const ImportedMemory& memory) {
        return importer.open_memory(memory.handle, memory.size_bytes);
      });
}

absl::StatusOr<std::shared_ptr<SlotEvents>> ImportCache::read_events(wire::RowRef row,
                                                                     std::uint32_t slots,
                                                                     Importer& importer) {
  return share(
      events_, closed_.events, wire::pack_subscriber(row), row,
      [&] { return control_.import_events(row); },
      [&](const std::vector<wire::DeviceHandle>& handles)
          -> absl::StatusOr<std::unique_ptr<SlotEvents>> {
        auto events = open_events(importer, handles, slots);
        if (!events.ok()) return events.status();
        return std::make_unique<SlotEvents>(std::move(*events));
      });
}

void ImportCache::flush() {
  const std::lock_guard lock(mutex_);
  if (closed_.memory.empty() && closed_.events.empty()) return;
  // An error means that the daemon has gone, or that the session has ended: then it knows.
  control_.close_imports(std::exchange(closed_, {})).IgnoreError();
}

}  // namespace memlease::internal
