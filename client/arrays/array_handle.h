// An array as one client has opened it: its own to close, whoever else in this process has the same
// array open. Shared by the copies of an Array and by its followers. Thread-safe.
//
// In a forked child it opens its array again at its first use there, over a session of the child's
// own: what the parent has opened is left as it is, since its pages are not in the child, and its
// locks may be held by threads that are not either. So nothing of this needs a lock: each opening
// is published by one store, and stays until the handle dies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/await_any.h"
#include "client/arrays/event_descriptor.h"
#include "client/arrays/handle_owner.h"
#include "client/arrays/lazily.h"
#include "client/arrays/open_array.h"
#include "client/arrays/places.h"
#include "client/arrays/written_replicas.h"

namespace memlease::internal {

class ArrayHandle : public std::enable_shared_from_this<ArrayHandle> {
 public:
  // Takes over one of the array's handles, which OpenArray counts. The owner lives as long as this.
  explicit ArrayHandle(HandleOwner::Opened opened);
  // Calls nobody.
  ~ArrayHandle();
  ArrayHandle(const ArrayHandle&) = delete;
  ArrayHandle& operator=(const ArrayHandle&) = delete;

  bool strict() const { return strict_; }
  // Of a handle on a replica: one on its home, which nobody else has. Null: the array is a home.
  ArrayHandle* home() const {
    const Rare* const rare = rare_.if_made();
    return rare == nullptr ? nullptr : rare->home.get();
  }
  // Before anybody else has this.
  void set_home(std::shared_ptr<ArrayHandle> home) { rare_.get().home = std::move(home); }
  // Whose name, identity and writer are those of the array, wherever it is.
  OpenArray& home_array() const { return home() == nullptr ? array() : home()->array(); }
  // Versions of the array are, or may be, on other devices, too: see client/arrays/replicas.h. To
  // be asked of what use() has found usable.
  bool has_places() const {
    return home() != nullptr || array().board().elsewhere.load(std::memory_order_relaxed) != 0;
  }
  // Where the newest version may be. Opens replicas that have been written since the last time,
  // which calls the daemon.
  absl::StatusOr<Places> places(InterruptCheck interrupt);
  // Of a home: a handle on its replica there, or another one on itself.
  absl::StatusOr<std::shared_ptr<ArrayHandle>> open_replica(const std::string& device,
                                                            InterruptCheck interrupt);
  // As it has been opened last: by this process if use() was OK.
  OpenArray& array() const { return *array_.load(std::memory_order_acquire); }
  std::uint64_t interrupt_check() const { return interrupt_check_.load(std::memory_order_relaxed); }

  // kClosed, or what the array says to it. In a forked child it opens the array first, if that has
  // not been done.
  absl::Status use();
  // A read that need not wait (OpenArray::read_at_once).
  ReadAttempt read_at_once(std::uint64_t version, std::uint64_t newer_than) const {
    if (closed_.load(std::memory_order_relaxed) || home() != nullptr) return {};
    return array().read_at_once(version, newer_than);
  }

  // The number of the current version, wherever it is; 0: none, as where the write of an only slot
  // was dropped. Calls the daemon for what this process has not met: an interrupt; kWithdrawn.
  absl::StatusOr<std::uint64_t> current_version(InterruptCheck interrupt);

  // The same, to be kept. It does not keep this handle.
  std::shared_ptr<OpenArray> share_array() const { return newest_.load()->by.array; }
  // What a wait for a version above `newer_than` needs of the array, which it keeps, but not this
  // handle. In a forked child it opens the array first, and the first time in a process it
  // subscribes. kClosed and what a read says; a withdrawn array is ready.
  absl::StatusOr<Awaited> awaited(std::uint64_t newer_than, InterruptCheck interrupt);
  // The part of that which is about the array's places, for whoever makes his own.
  void look_anywhere(Awaited& awaited);
  // EventDescriptor's: readable while there is a version above those that note_taken() has been
  // told since it was opened.
  absl::StatusOr<int> event_fd();
  void note_taken(std::uint64_t version) {
    if (event() != nullptr) watch_again(version);
  }

  bool closed() const { return closed_.load() || array().closed(); }
  // use() would say OK, or what only a call can find out: nothing is to be opened first.
  bool ready() const { return !closed() && !array().forked(); }
  // Nothing begins by this handle any more; with the last one the array is closed, which may call
  // the daemon. Closed it is whatever comes: this fails with what `interrupt` says alone. A repeat
  // does nothing.
  absl::Status close(InterruptCheck interrupt);
  // The same for a caller that closes many: as OpenArray::leave_if_due().
  absl::Status close(std::vector<Departure>& departures, InterruptCheck interrupt);

 private:
  // By the process that made the handle, or by a child, grandchild and so on.
  struct Opening {
    explicit Opening(HandleOwner::Opened opened_by) : by(std::move(opened_by)) {}
    HandleOwner::Opened by;
    Opening* before = nullptr;
    std::atomic<bool> ended{false};   // its handle of the array has been closed
    Lazily<WrittenReplicas> written;  // of a home
  };
  absl::Status open_in_child();
  void watch_again(std::uint64_t version);
  static absl::Status end(Opening& opening, std::vector<Departure>& departures,
                          InterruptCheck interrupt);

  struct Rare {
    std::shared_ptr<ArrayHandle> home;
    Lazily<EventDescriptor> event;
  };
  EventDescriptor* event() const {
    const Rare* const rare = rare_.if_made();
    return rare == nullptr ? nullptr : rare->event.if_made();
  }

  Opening first_;
  std::atomic<Opening*> newest_{&first_};
  // Of the newest one, once it may be used.
  std::atomic<OpenArray*> array_;
  std::atomic<std::uint64_t> interrupt_check_;
  std::atomic<bool> closed_{false};
  const bool strict_;
  Lazily<Rare> rare_;
};

}  // namespace memlease::internal
