// Memory and pages of events as open in this process: each segment and each page once, however many
// arrays stand in it, for as long as anybody uses it. Thread-safe; outlives what it hands out.
//
// The last use closes nothing: it may end in the middle of a write, and closing may wait for the
// device. A later call of close_unused() does, unless what is open is used again before that, and
// not as long as a stream of the process waits for a word (StreamWaits): the driver would wait for
// that stream. In a process that has always some waits before it, what has been unused for long is
// closed once those are over that had begun by then; the driver waits for the others.
// The daemon keeps memory that a process has open, so the next flush() tells what has been closed.
// A page is the kernel's to keep.
//
// Opening, closing and the daemon's calls all happen without the lock, as each may wait for the
// device or the daemon. What belongs to one segment or page still comes one after the other: while
// one thread opens or closes it, or tells the daemon that it is closed, those who want that one
// wait, and nobody else does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ordering/event_page.h"
#include "client/ordering/importer.h"
#include "client/ordering/shared_events.h"
#include "client/ordering/stream_waits.h"
#include "client/session/control_port.h"
#include "client/session/interrupt.h"
#include "client/session/mapping_cache.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

class ImportCache {
 public:
  ImportCache(ControlPort& control, MappingCache& mappings, ImporterSource& importers)
      : control_(control), mappings_(mappings), importers_(importers) {}
  // Nothing that it has handed out is in use. What may not be closed yet stays open until the
  // process exits.
  ~ImportCache();
  ImportCache(const ImportCache&) = delete;
  ImportCache& operator=(const ImportCache&) = delete;

  ImporterSource& importers() const { return importers_; }
  // Asks the daemon for the handle and opens it, unless it is open. Waits for the daemon, or for a
  // thread that does, and ends with what `interrupt` says. kBusy: that thread is this one, which
  // has been interrupted.
  absl::StatusOr<std::shared_ptr<DeviceMemory>> get(wire::FileId file, Importer& importer,
                                                    InterruptCheck interrupt);
  // Likewise a page of events. Where very many are unused it closes those first.
  absl::StatusOr<std::shared_ptr<EventPage>> event_page(wire::FileId file, wire::FileKind kind,
                                                        Importer& importer,
                                                        InterruptCheck interrupt);
  // The events behind a reader's row for so many slots. kNotFound: its process has gone.
  absl::StatusOr<SharedEvents> events_of(wire::RowRef row, std::uint32_t slots, Importer& importer,
                                         InterruptCheck interrupt);
  // Tells the daemon what has been closed since the last time; a call only if there is something.
  void flush();
  // The last uses of pages that are registered, which end by close_unused().
  void close_later(OpenMemory gone) ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes what nobody uses and may be closed. Makes no call; may wait for the device, as for
  // kernels of this process.
  void close_unused() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same of memory alone.
  void close_unused_memory() ABSL_LOCKS_EXCLUDED(mutex_);
  // Is there anything that is to be closed?
  bool any_unused() const { return any_memory_unused() || unused_pages_ != 0 || unused_gone_ != 0; }
  bool any_memory_unused() const { return unused_memory_ != 0; }

 private:
  // When a last use has ended: by then so many waits had been noted.
  struct Since {
    std::uint64_t wait = 0;
    std::chrono::steady_clock::time_point time;
  };
  // What is open by its key, or being opened, closed or told of: then nobody can have it yet.
  template <typename Opened>
  struct Entry {
    std::weak_ptr<Opened> opened;
    std::unique_ptr<Opened> unused;  // open still
    Since since;                     // it is that
    std::thread::id opener;          // while a thread opens it
  };
  template <typename Opened>
  using Known = std::unordered_map<wire::FileId, Entry<Opened>>;
  template <typename Opened>
  Known<Opened>& known() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if constexpr (std::is_same_v<Opened, DeviceMemory>) return memory_;
    if constexpr (std::is_same_v<Opened, EventPage>) return pages_;
  }
  // Does the daemon keep it as long as it is open?
  template <typename Opened>
  static constexpr bool kIsTold = std::is_same_v<Opened, DeviceMemory>;
  // What is open by this key; nullptr: this thread, and nobody else, is to open it. `answered_for`:
  // the daemon keeps it still, as it has not been told yet that it was closed.
  template <typename Opened>
  absl::StatusOr<std::shared_ptr<Opened>> find_or_begin(wire::FileId file, InterruptCheck interrupt,
                                                        bool& answered_for)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // What is open by this key, or what `open` makes of what the daemon answers to `ask`; the last
  // use of it enters the file among what has been closed.
  template <typename Opened, typename Ask, typename Open>
  absl::StatusOr<std::shared_ptr<Opened>> share(wire::FileId file, Ask ask, Open open,
                                                InterruptCheck interrupt)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // What is handed out; its last use ends by end_use().
  template <typename Opened>
  std::shared_ptr<Opened> hand_out(wire::FileId file, std::unique_ptr<Opened> opened);
  template <typename Opened>
  void end_use(wire::FileId file, std::unique_ptr<Opened> opened) ABSL_LOCKS_EXCLUDED(mutex_);
  static Since now();
  static bool may_close(const Since& since, const StreamWaits::Over& over);
  // Closes one, if one may be closed: of what close_later() was given, or was opened here.
  bool close_gone() ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename Opened>
  bool close_one() ABSL_LOCKS_EXCLUDED(mutex_);
  void close_pages() ABSL_LOCKS_EXCLUDED(mutex_);
  template <typename Opened>
  std::atomic<std::size_t>& unused() {
    return std::is_same_v<Opened, DeviceMemory> ? unused_memory_ : unused_pages_;
  }
  // Nothing is open or under way by this key any more.
  template <typename Opened>
  void forget(wire::FileId file) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ControlPort& control_;
  MappingCache& mappings_;
  ImporterSource& importers_;
  wire::Mutex mutex_;
  wire::CondVar changed_;                               // memory_ or pages_ has
  Known<DeviceMemory> memory_ ABSL_GUARDED_BY(mutex_);  // by the file; so are pages_
  Known<EventPage> pages_ ABSL_GUARDED_BY(mutex_);
  struct Gone {
    std::shared_ptr<const void> pages;
    Since since;
  };
  std::vector<Gone> gone_ ABSL_GUARDED_BY(mutex_);
  // How many are to be closed.
  std::atomic<std::size_t> unused_memory_{0};
  std::atomic<std::size_t> unused_pages_{0};
  std::atomic<std::size_t> unused_gone_{0};
  ClosedImports closed_ ABSL_GUARDED_BY(mutex_);  // and not told of yet
};

}  // namespace memlease::internal
