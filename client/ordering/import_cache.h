// Memory and other readers' events as open in this process: each segment and each row once, however
// many arrays stand in it, for as long as anybody uses it. Thread-safe; outlives what it hands out.
//
// The daemon keeps what a process has open, so it is told what has been closed: not by whoever
// drops the last use, which may happen where no call can be made, but by the next call's flush.
//
// Opening, closing and the daemon's calls all happen without the lock, as each may wait for the
// device or the daemon. What belongs to one segment or row still comes one after the other: while
// one thread opens or closes it, or tells the daemon that it is closed, those who want that one
// wait, and nobody else does.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ordering/importer.h"
#include "client/ordering/row_events.h"
#include "client/session/control_port.h"
#include "client/session/interrupt.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

class ImportCache {
 public:
  ImportCache(ControlPort& control, ImporterSource& importers)
      : control_(control), importers_(importers) {}

  ImporterSource& importers() const { return importers_; }
  // Asks the daemon for the handle and opens it, unless it is open. Waits for the daemon, or for a
  // thread that does, and ends with what `interrupt` says. kBusy: that thread is this one, which
  // has been interrupted.
  absl::StatusOr<std::shared_ptr<DeviceMemory>> get(wire::FileId file, Importer& importer,
                                                    InterruptCheck interrupt);
  // Likewise the events of another process's reader row, for so many slots.
  absl::StatusOr<std::shared_ptr<RowEvents>> read_events(wire::EventsRef wanted,
                                                         std::uint32_t slots, Importer& importer,
                                                         InterruptCheck interrupt);
  // Tells the daemon what has been closed since the last time; a call only if there is something.
  void flush();

 private:
  // What is open by its key, or being opened, closed or told of: then nobody can have it yet.
  template <typename Opened>
  struct Entry {
    std::weak_ptr<Opened> opened;
    std::thread::id opener;  // while a thread opens it
  };
  template <typename Opened>
  using Known = std::unordered_map<std::uint64_t, Entry<Opened>>;
  template <typename Opened>
  Known<Opened>& known() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if constexpr (std::is_same_v<Opened, DeviceMemory>) return memory_;
    if constexpr (std::is_same_v<Opened, RowEvents>) return events_;
  }
  template <typename Opened>
  auto& closed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if constexpr (std::is_same_v<Opened, DeviceMemory>) return closed_.memory;
    if constexpr (std::is_same_v<Opened, RowEvents>) return closed_.events;
  }
  // What is open by this key; nullptr: this thread, and nobody else, is to open it. `answered_for`:
  // the daemon keeps it still, as it has not been told yet that it was closed.
  template <typename Opened, typename Id>
  absl::StatusOr<std::shared_ptr<Opened>> find_or_begin(std::uint64_t key, Id id,
                                                        InterruptCheck interrupt,
                                                        bool& answered_for)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // What is open by this key, or what `open` makes of what the daemon answers to `ask`; the last
  // use of it enters `id` among what has been closed.
  template <typename Opened, typename Id, typename Ask, typename Open>
  absl::StatusOr<std::shared_ptr<Opened>> share(std::uint64_t key, Id id, Ask ask, Open open,
                                                InterruptCheck interrupt)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing is open or under way by this key any more.
  template <typename Opened>
  void forget(std::uint64_t key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ControlPort& control_;
  ImporterSource& importers_;
  wire::Mutex mutex_;
  wire::CondVar changed_;                               // memory_ or events_ has
  Known<DeviceMemory> memory_ ABSL_GUARDED_BY(mutex_);  // by the file
  Known<RowEvents> events_ ABSL_GUARDED_BY(mutex_);     // by wire::pack_events
  ClosedImports closed_ ABSL_GUARDED_BY(mutex_);        // and not told of yet
};

}  // namespace memlease::internal
