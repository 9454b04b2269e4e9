#include "client/ordering/import_cache.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "wire/board.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

template <typename Opened>
void ImportCache::forget(std::uint64_t key) {
  known<Opened>().erase(key);
  changed_.notify_all();
}

template <typename Opened, typename Id, typename Ask, typename Open>
absl::StatusOr<std::shared_ptr<Opened>> ImportCache::share(std::uint64_t key, Id id, Ask ask,
                                                           Open open) {
  // The daemon keeps what it has answered for, until it is told that this is closed.
  bool answered_for = false;
  {
    const wire::MutexLock lock(mutex_);
    auto& known = this->known<Opened>();
    for (auto found = known.find(key); found != known.end(); found = known.find(key)) {
      if (auto opened = found->second.lock()) return opened;
      if (leaves_out("wait for who closes")) break;
      changed_.wait(mutex_);
    }
    known.try_emplace(key);
    answered_for = std::erase(closed<Opened>(), id) != 0;
  }
  absl::Cleanup failed = [&] {
    const wire::MutexLock lock(mutex_);
    if (answered_for) closed<Opened>().push_back(id);
    forget<Opened>(key);
  };
  const auto handles = ask();
  answered_for = answered_for || handles.ok();
  auto opened = [&]() -> absl::StatusOr<std::unique_ptr<Opened>> {
    if (!handles.ok()) return handles.status();
    return open(*handles);
  }();
  if (!opened.ok()) return opened.status();
  std::shared_ptr<Opened> shared(opened->release(), [this, key, id](Opened* last) {
    delete last;
    const wire::MutexLock lock(mutex_);
    closed<Opened>().push_back(id);
    forget<Opened>(key);
  });
  std::move(failed).Cancel();
  const wire::MutexLock lock(mutex_);
  known<Opened>()[key] = shared;
  changed_.notify_all();
  return shared;
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> ImportCache::get(wire::FileId file,
                                                               Importer& importer,
                                                               InterruptCheck interrupt) {
  return share<DeviceMemory>(
      to_int(file), file, [&] { return control_.import_memory(file, interrupt); },
      [&](const ImportedMemory& memory) {
        return importer.open_memory(memory.handle, memory.size_bytes);
      });
}

absl::StatusOr<std::shared_ptr<RowEvents>> ImportCache::read_events(wire::EventsRef wanted,
                                                                    std::uint32_t slots,
                                                                    Importer& importer) {
  return share<RowEvents>(
      wire::pack_events(wanted), wanted, [&] { return control_.import_events(wanted); },
      [&](const std::vector<wire::DeviceHandle>& handles)
          -> absl::StatusOr<std::unique_ptr<RowEvents>> {
        auto events = open_events(importer, handles, slots);
        if (!events.ok()) return events.status();
        return std::make_unique<RowEvents>(std::move(*events));
      });
}

void ImportCache::flush() {
  ClosedImports closed;
  {
    const wire::MutexLock lock(mutex_);
    if (closed_.memory.empty() && closed_.events.empty()) return;
    closed = std::exchange(closed_, {});
    // Whoever asks for one of them again must do so after the daemon has heard of its closing.
    for (const wire::FileId file : closed.memory) memory_.try_emplace(to_int(file));
    for (const wire::EventsRef& events : closed.events) {
      events_.try_emplace(wire::pack_events(events));
    }
  }
  const absl::Cleanup done = [&] {
    const wire::MutexLock lock(mutex_);
    for (const wire::FileId file : closed.memory) forget<DeviceMemory>(to_int(file));
    for (const wire::EventsRef& events : closed.events) {
      forget<RowEvents>(wire::pack_events(events));
    }
  };
  // An error means that the daemon has gone, or that the session has ended: then it knows.
  control_.close_imports(closed).IgnoreError();
}

}  // namespace memlease::internal
