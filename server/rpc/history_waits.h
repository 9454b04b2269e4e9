// Calls that wait for something to happen. An event that its caller may see ends a wait, once, or
// the end of the call or of the daemon. No thread stands still for it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/account.h"
#include "server/core/history.h"
#include "server/core/session_host.h"
#include "wire/mutex.h"

namespace memlease::server {

struct HistoryWait {
  PeerIdentity viewer;
  Charge charge;            // the caller's, who may be another one than the viewer
  std::uint64_t after = 0;  // an event with a greater number
  // OK: look again. Or why nobody waits any more. Called once and without locks, on any thread;
  // must not block.
  std::function<void(absl::Status status)> done;
};

class HistoryWaits {
 public:
  using Id = std::uint64_t;  // never reused

  // The reason of end_all() if that has been; `done` is not called then. Whoever looks at the
  // history first does both under the mutex under which things happen, or could miss one.
  absl::StatusOr<Id> add(HistoryWait wait);
  // Ends one, unless it has ended.
  void end(Id id, const absl::Status& status);
  void happened(std::span<const HistoryEvent> events);
  // Ends them all, and refuses those to come. The first reason counts.
  void end_all(const absl::Status& reason);
  std::size_t size() const;

 private:
  using Which = std::function<bool(Id, const HistoryWait&)>;
  void end_those(const Which& which, const absl::Status& status);

  mutable wire::Mutex mutex_;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // not OK after end_all()
  Id last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Id, HistoryWait> waits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
