#include "client/ordering/import_cache.h"

#include <chrono>
#include <condition_variable>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/session/fork_guard.h"
#include "wire/board.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

absl::Status import_opens_itself() {
  return wire::make_error(wire::ErrorCode::kBusy,
                          "this thread is about to open memory or events of a GPU array, and needs "
                          "them in its signal handler or interrupt check",
                          "Note the signal there, and use the array after the call.");
}

absl::Status import_is_parents() {
  return wire::make_error(wire::ErrorCode::kForkedClient,
                          "the parent process was about to open this array at the fork()",
                          "Open it in the child.");
}

}  // namespace

template <typename Opened>
void ImportCache::forget(std::uint64_t key) {
  known<Opened>().erase(key);
  changed_.notify_all();
}

template <typename Opened, typename Id>
absl::StatusOr<std::shared_ptr<Opened>> ImportCache::find_or_begin(std::uint64_t key, Id id,
                                                                   InterruptCheck interrupt,
                                                                   bool& answered_for) {
  wire::MutexLock lock(mutex_);
  auto& known = this->known<Opened>();
  for (auto found = known.find(key); found != known.end(); found = known.find(key)) {
    if (auto opened = found->second.opened.lock()) return opened;
    if (leaves_out("wait for who closes")) break;
    if (found->second.opener == std::this_thread::get_id()) return import_opens_itself();
    const auto asks = std::chrono::steady_clock::now() + kInterruptInterval;
    if (changed_.wait_until(mutex_, asks) == std::cv_status::no_timeout) continue;
    lock.unlock();
    if (auto status = interrupt(); !status.ok()) return status;
    lock.lock();
  }
  known[key].opener = std::this_thread::get_id();
  answered_for = std::erase(closed<Opened>(), id) != 0;
  return std::shared_ptr<Opened>();
}

template <typename Opened, typename Id, typename Ask, typename Open>
absl::StatusOr<std::shared_ptr<Opened>> ImportCache::share(std::uint64_t key, Id id, Ask ask,
                                                           Open open, InterruptCheck interrupt) {
  // The check may fork: the lock is the parent's there.
  const std::uint32_t generation = fork_generation();
  absl::Status stopped;
  const auto check = [&] {
    stopped = interrupt();
    if (stopped.ok() && generation != fork_generation()) stopped = import_is_parents();
    return stopped;
  };
  // The daemon keeps what it has answered for, until it is told that this is closed.
  bool answered_for = false;
  auto open_already = find_or_begin<Opened>(key, id, check, answered_for);
  if (!open_already.ok() || *open_already != nullptr) return open_already;
  absl::Cleanup failed = [&] {
    if (generation != fork_generation()) return;
    const wire::MutexLock lock(mutex_);
    if (answered_for) closed<Opened>().push_back(id);
    forget<Opened>(key);
  };
  const auto handles = ask(check);
  // An answer that nobody waits for any more may have been given all the same.
  const bool unheard =
      !stopped.ok() || wire::code_of(handles.status()) == wire::ErrorCode::kTimeout;
  answered_for = answered_for || handles.ok() || unheard;
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
  known<Opened>()[key] = {shared, {}};
  changed_.notify_all();
  return shared;
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> ImportCache::get(wire::FileId file,
                                                               Importer& importer,
                                                               InterruptCheck interrupt) {
  return share<DeviceMemory>(
      to_int(file), file, [&](InterruptCheck check) { return control_.import_memory(file, check); },
      [&](const ImportedMemory& memory) {
        return importer.open_memory(memory.handle, memory.size_bytes);
      },
      interrupt);
}

absl::StatusOr<std::shared_ptr<RowEvents>> ImportCache::read_events(wire::EventsRef wanted,
                                                                    std::uint32_t slots,
                                                                    Importer& importer,
                                                                    InterruptCheck interrupt) {
  return share<RowEvents>(
      wire::pack_events(wanted), wanted,
      [&](InterruptCheck check) { return control_.import_events(wanted, check); },
      [&](const std::vector<wire::DeviceHandle>& handles)
          -> absl::StatusOr<std::unique_ptr<RowEvents>> {
        auto events = open_events(importer, handles, slots);
        if (!events.ok()) return events.status();
        return std::make_unique<RowEvents>(std::move(*events));
      },
      interrupt);
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
