#include "client/ordering/import_cache.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
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

ImportCache::~ImportCache() {
  for (auto& [file, entry] : pages_) {
    if (entry.unused == nullptr || entry.unused->waits_are_over()) continue;
    OpenMemory with = std::exchange(gone_, {});
    for (auto& [segment, open] : memory_) with.emplace_back(std::move(open.unused));
    EventPage::keep_open(std::move(entry.unused), std::move(with));
  }
}

template <typename Opened>
std::shared_ptr<Opened> ImportCache::hand_out(wire::FileId file, std::unique_ptr<Opened> opened) {
  return std::shared_ptr<Opened>(opened.release(), [this, file](Opened* last) {
    end_use(file, std::unique_ptr<Opened>(last));
  });
}

template <typename Opened>
void ImportCache::end_use(wire::FileId file, std::unique_ptr<Opened> opened) {
  const wire::MutexLock lock(mutex_);
  known<Opened>()[file].unused = std::move(opened);
  changed_.notify_all();
}

template <typename Opened>
void ImportCache::forget(wire::FileId file) {
  known<Opened>().erase(file);
  changed_.notify_all();
}

template <typename Opened>
absl::StatusOr<std::shared_ptr<Opened>> ImportCache::find_or_begin(wire::FileId file,
                                                                   InterruptCheck interrupt,
                                                                   bool& answered_for) {
  wire::MutexLock lock(mutex_);
  auto& known = this->known<Opened>();
  for (auto found = known.find(file); found != known.end(); found = known.find(file)) {
    if (auto opened = found->second.opened.lock()) return opened;
    if (found->second.unused != nullptr) {
      auto again = hand_out(file, std::move(found->second.unused));
      found->second.opened = again;
      return again;
    }
    if (leaves_out("wait for who closes")) break;
    if (found->second.opener == std::this_thread::get_id()) return import_opens_itself();
    const auto asks = std::chrono::steady_clock::now() + kInterruptInterval;
    if (changed_.wait_until(mutex_, asks) == std::cv_status::no_timeout) continue;
    lock.unlock();
    if (auto status = interrupt(); !status.ok()) return status;
    lock.lock();
  }
  known[file].opener = std::this_thread::get_id();
  if constexpr (kIsTold<Opened>) answered_for = std::erase(closed_.memory, file) != 0;
  return std::shared_ptr<Opened>();
}

template <typename Opened, typename Ask, typename Open>
absl::StatusOr<std::shared_ptr<Opened>> ImportCache::share(wire::FileId file, Ask ask, Open open,
                                                           InterruptCheck interrupt) {
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
  auto open_already = find_or_begin<Opened>(file, check, answered_for);
  if (!open_already.ok() || *open_already != nullptr) return open_already;
  absl::Cleanup failed = [&] {
    if (generation != fork_generation()) return;
    const wire::MutexLock lock(mutex_);
    if (answered_for && kIsTold<Opened>) closed_.memory.push_back(file);
    forget<Opened>(file);
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
  auto shared = hand_out(file, *std::move(opened));
  std::move(failed).Cancel();
  const wire::MutexLock lock(mutex_);
  known<Opened>()[file] = {shared, nullptr, {}};
  changed_.notify_all();
  return shared;
}

absl::StatusOr<std::shared_ptr<DeviceMemory>> ImportCache::get(wire::FileId file,
                                                               Importer& importer,
                                                               InterruptCheck interrupt) {
  return share<DeviceMemory>(
      file, [&](InterruptCheck check) { return control_.import_memory(file, check); },
      [&](const ImportedMemory& memory) {
        return importer.open_memory(memory.handle, memory.size_bytes);
      },
      interrupt);
}

absl::StatusOr<std::shared_ptr<EventPage>> ImportCache::event_page(wire::FileId file,
                                                                   wire::FileKind kind,
                                                                   Importer& importer,
                                                                   InterruptCheck interrupt) {
  // For who writes and makes no other call, while readers come and go.
  constexpr std::size_t kManyUnused = 16;
  if (unused_pages() >= kManyUnused) close_unused();
  return share<EventPage>(
      file, [&](InterruptCheck check) { return mappings_.get(file, kind, check); },
      [&](const std::shared_ptr<Mapping>& mapping) -> absl::StatusOr<std::unique_ptr<EventPage>> {
        return EventPage::make(mapping, importer);
      },
      interrupt);
}

absl::StatusOr<SharedEvents> ImportCache::events_of(wire::RowRef row, std::uint32_t slots,
                                                    Importer& importer, InterruptCheck interrupt) {
  auto page = event_page(row.file, wire::FileKind::kSessionPage, importer, interrupt);
  if (!page.ok()) return page.status();
  const std::uint64_t offset = row.unit * wire::kRowUnitBytes + wire::events_offset(slots);
  return SharedEvents::in(*std::move(page), offset, slots, importer);
}

std::size_t ImportCache::unused_pages() {
  const wire::MutexLock lock(mutex_);
  return std::ranges::count_if(pages_,
                               [](const auto& page) { return page.second.unused != nullptr; });
}

template <typename Opened>
std::vector<std::pair<wire::FileId, std::unique_ptr<Opened>>> ImportCache::take_unused() {
  std::vector<std::pair<wire::FileId, std::unique_ptr<Opened>>> unused;
  const wire::MutexLock lock(mutex_);
  for (auto& [file, entry] : known<Opened>()) {
    if (entry.unused != nullptr) unused.emplace_back(file, std::move(entry.unused));
  }
  return unused;
}

bool ImportCache::any_unused() {
  const auto is_unused = [](const auto& known) { return known.second.unused != nullptr; };
  const wire::MutexLock lock(mutex_);
  return !gone_.empty() || std::ranges::any_of(memory_, is_unused) ||
         std::ranges::any_of(pages_, is_unused);
}

bool ImportCache::waits_are_over() {
  std::vector<std::shared_ptr<EventPage>> used;
  {
    const wire::MutexLock lock(mutex_);
    for (const auto& [file, entry] : pages_) {
      if (entry.unused != nullptr && !entry.unused->waits_are_over()) return false;
      if (auto page = entry.opened.lock()) used.push_back(std::move(page));
    }
  }
  return std::ranges::all_of(used, [](const auto& page) { return page->waits_are_over(); });
}

void ImportCache::close_later(OpenMemory gone) {
  const wire::MutexLock lock(mutex_);
  std::ranges::move(gone, std::back_inserter(gone_));
}

void ImportCache::close_unused() {
  if (!any_unused() || !waits_are_over()) return;
  OpenMemory gone;
  {
    const wire::MutexLock lock(mutex_);
    gone.swap(gone_);
  }
  gone.clear();
  for (auto& [file, page] : take_unused<EventPage>()) {
    page.reset();
    const wire::MutexLock lock(mutex_);
    forget<EventPage>(file);
  }
  for (auto& [file, memory] : take_unused<DeviceMemory>()) {
    memory.reset();
    const wire::MutexLock lock(mutex_);
    closed_.memory.push_back(file);
    forget<DeviceMemory>(file);
  }
}

void ImportCache::flush() {
  ClosedImports closed;
  {
    const wire::MutexLock lock(mutex_);
    if (closed_.memory.empty()) return;
    closed = std::exchange(closed_, {});
    // Whoever asks for one of them again must do so after the daemon has heard of its closing.
    for (const wire::FileId file : closed.memory) memory_.try_emplace(file);
  }
  const absl::Cleanup done = [&] {
    const wire::MutexLock lock(mutex_);
    for (const wire::FileId file : closed.memory) forget<DeviceMemory>(file);
  };
  // An error means that the daemon has gone, or that the session has ended: then it knows.
  control_.close_imports(closed).IgnoreError();
}

}  // namespace memlease::internal
