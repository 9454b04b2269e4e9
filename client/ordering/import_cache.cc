#include "client/ordering/import_cache.h"

#include <algorithm>
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

// Where those who look for leaks find it.
void keep_open(OpenMemory open) {
  struct Kept {
    OpenMemory open;
    Kept* next;
  };
  static std::atomic<Kept*> first{nullptr};
  auto* const kept = new Kept{std::move(open), first.load()};
  while (!first.compare_exchange_weak(kept->next, kept)) {
  }
}

}  // namespace

ImportCache::~ImportCache() {
  const StreamWaits::Over over = StreamWaits::over();
  const auto is_over = [&](const auto& known) {
    return known.second.unused == nullptr || known.second.unused->waits_are_over(over.up_to);
  };
  if (over.all && std::ranges::all_of(pages_, is_over)) return;
  OpenMemory open;
  for (auto& [pages, since] : gone_) open.push_back(std::move(pages));
  for (auto& [file, page] : pages_) open.emplace_back(std::move(page.unused));
  for (auto& [file, memory] : memory_) open.emplace_back(std::move(memory.unused));
  keep_open(std::move(open));
}

template <typename Opened>
std::shared_ptr<Opened> ImportCache::hand_out(wire::FileId file, std::unique_ptr<Opened> opened) {
  return std::shared_ptr<Opened>(opened.release(), [this, file](Opened* last) {
    end_use(file, std::unique_ptr<Opened>(last));
  });
}

template <typename Opened>
void ImportCache::end_use(wire::FileId file, std::unique_ptr<Opened> opened) {
  const Since since = now();
  const wire::MutexLock lock(mutex_);
  Entry<Opened>& entry = known<Opened>()[file];
  entry.unused = std::move(opened);
  entry.since = since;
  ++unused<Opened>();
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
      --unused<Opened>();
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
  known<Opened>()[file] = {shared, nullptr, {}, {}};
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
  if (unused_pages_ >= kManyUnused) close_pages();
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

ImportCache::Since ImportCache::now() {
  return {StreamWaits::last(), std::chrono::steady_clock::now()};
}

bool ImportCache::may_close(const Since& since, const StreamWaits::Over& over) {
  constexpr std::chrono::seconds kLong{10};
  if (since.wait > over.up_to) return false;
  return over.all || std::chrono::steady_clock::now() - since.time > kLong;
}

void ImportCache::close_later(OpenMemory gone) {
  if (gone.empty()) return;
  const Since since = now();
  const wire::MutexLock lock(mutex_);
  unused_gone_ += gone.size();
  for (auto& pages : gone) gone_.push_back({std::move(pages), since});
}

bool ImportCache::close_gone() {
  const StreamWaits::Over over = StreamWaits::over();
  Gone one;
  const wire::MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(gone_, [&](const Gone& gone) { return may_close(gone.since, over); });
  if (found == gone_.end()) return false;
  one = std::move(*found);
  gone_.erase(found);
  --unused_gone_;
  return true;
}

template <typename Opened>
bool ImportCache::close_one() {
  const StreamWaits::Over over = StreamWaits::over();
  wire::FileId file{0};
  std::unique_ptr<Opened> one;
  {
    const wire::MutexLock lock(mutex_);
    for (auto& [known, entry] : this->known<Opened>()) {
      if (entry.unused == nullptr || !may_close(entry.since, over)) continue;
      if constexpr (!kIsTold<Opened>) {
        if (!entry.unused->waits_are_over(over.up_to)) continue;
      }
      file = known;
      one = std::move(entry.unused);
      --unused<Opened>();
      break;
    }
  }
  if (one == nullptr) return false;
  one.reset();
  const wire::MutexLock lock(mutex_);
  if constexpr (kIsTold<Opened>) closed_.memory.push_back(file);
  forget<Opened>(file);
  return true;
}

void ImportCache::close_pages() {
  while (close_one<EventPage>()) {
  }
}

void ImportCache::close_unused() {
  if (!any_unused()) return;
  while (close_gone()) {
  }
  close_pages();
  close_unused_memory();
}

void ImportCache::close_unused_memory() {
  while (close_one<DeviceMemory>()) {
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
