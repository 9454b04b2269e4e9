// What an open array needs of what owns it: its session's services, a handle of itself, and a place
// for what cannot be done where it is. Implemented by ArrayTable; in tests by FakeArrayOwner.
// Called by OpenArray. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "client/arrays/departure_numbers.h"
#include "client/arrays/membership.h"
#include "client/ordering/gpu_use.h"
#include "client/ordering/import_cache.h"
#include "client/ordering/kept_sources.h"
#include "client/session/control_port.h"
#include "client/session/interrupt.h"
#include "client/session/session.h"
#include "wire/ids.h"
#include "wire/mutex.h"
#include "wire/recent_kinds.h"

namespace memlease::internal {

class OpenArray;

class ArrayOwner : public std::enable_shared_from_this<ArrayOwner> {
 public:
  ArrayOwner(std::unique_ptr<Session> session, ImporterSource& importers)
      : session_(std::move(session)),
        imports_(session_->control(), session_->mappings(), importers) {}
  virtual ~ArrayOwner() = default;
  ArrayOwner(const ArrayOwner&) = delete;
  ArrayOwner& operator=(const ArrayOwner&) = delete;

  Session& session() const { return *session_; }
  ImportCache& imports() { return imports_; }
  KeptSources& kept() { return kept_; }
  MembershipLock& membership_lock() { return membership_lock_; }
  // With strides. Arrays that are opened one after another mostly share one.
  wire::SharedKind share_kind(const wire::ArrayKind& kind) ABSL_LOCKS_EXCLUDED(kinds_mutex_);

  // One more handle of the array, for whoever has a mark on it (ReleaseMark); nullptr if it is
  // dying.
  virtual std::shared_ptr<OpenArray> handle_of(OpenArray& array) = 0;
  // Closes what has come to be unused, once it has left arrays, by one call for up to
  // wire::kMostDepartures of them. What the daemon does not answer, because it is silent or busy or
  // by an interrupt, a later flush() tells it again. Fails with what `interrupt` says alone.
  absl::Status leave(std::span<const Departure> departures, InterruptCheck interrupt);
  // The array has died where no call may be made, or did not wait for the device, or the daemon has
  // not answered; a later flush() leaves it, once the device is done with what it had open there.
  virtual void depart(const Departure& departure, GpuUse use) = 0;
  // Nobody uses it any more. What there is to be closed is closed by leave(), or later.
  void end_use(GpuUse use);

  // A hold has ended, or is deferred, where no call may be made: the next flush() looks
  // whether an array is to be left.
  void note_release() { release_noted_.store(true, std::memory_order_relaxed); }
  // The release of a hold is deferred, as nobody knows whether its work is over: whatever call
  // comes next in this process, on an array of a GPU or to the daemon, sees to it by
  // release_noted(). That waits for the GPU; not to be called under a lock.
  void note_deferred() {
    deferred_noted_.store(true, std::memory_order_relaxed);
    note_release();
  }
  void release_noted() {
    if (take_deferred()) release_all_deferred();
  }

 protected:
  // True once after each note.
  bool take_release() { return release_noted_.exchange(false, std::memory_order_relaxed); }
  bool take_deferred() {
    return deferred_noted_.load(std::memory_order_relaxed) &&
           deferred_noted_.exchange(false, std::memory_order_relaxed);
  }

 private:
  // By one call; takes what it has told off `departures`, of which there is one, also where
  // depart() has it again. True if the daemon has answered for all of these. Adds to `interrupted`
  // what `interrupt` says.
  bool leave_some(std::span<const Departure>& departures, InterruptCheck interrupt,
                  absl::Status& interrupted);
  // Of each array; one that cannot tell yet notes it again.
  virtual void release_all_deferred() = 0;

  const std::unique_ptr<Session> session_;
  ImportCache imports_;
  KeptSources kept_;
  DepartureNumbers departure_numbers_;
  MembershipLock membership_lock_;
  wire::Mutex kinds_mutex_;
  wire::RecentKinds kinds_ ABSL_GUARDED_BY(kinds_mutex_);
  std::atomic<bool> release_noted_{false};
  std::atomic<bool> deferred_noted_{false};
};

}  // namespace memlease::internal
