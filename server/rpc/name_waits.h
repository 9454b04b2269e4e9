// Calls that wait for an array of some name. What comes first ends a wait, once: the array, the
// deadline, the end of its session, of its call, or of the daemon. No thread stands still for it.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/access.h"
#include "server/core/session_host.h"
#include "server/loop/event_loop.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::server {

struct NameWait {
  std::string name;
  PeerIdentity peer;
  wire::SessionId session{0};
  std::chrono::steady_clock::time_point deadline;
  // Is the array there? Or why nobody waits for it any more. Called once and without locks, on any
  // thread; must not block.
  std::function<void(absl::StatusOr<bool> exists)> done;
};

class NameWaits {
 public:
  using Id = std::uint64_t;  // never reused

  // Deadlines pass on the loop, which outlives this. per_uid: the most waits of one uid.
  NameWaits(EventLoop& loop, std::size_t per_uid) : loop_(loop), per_uid_(per_uid) {}
  ~NameWaits() { loop_.cancel(timer_); }
  NameWaits(const NameWaits&) = delete;
  NameWaits& operator=(const NameWaits&) = delete;

  // For waits from now on.
  void set_per_uid(std::size_t per_uid);

  // kQuotaExceeded, or the reason of end_all(); `done` is not called then. Whoever looks for the
  // array first does both under the mutex under which arrays are made, or could miss it.
  absl::StatusOr<Id> add(NameWait wait);
  // Ends one, unless it has ended.
  void end(Id id, const absl::StatusOr<bool>& exists);
  // An array has been made: ends the waits of those who may read it.
  void created(const std::string& name, const AccessDomain& domain);
  void end_session(wire::SessionId session);
  // Ends them all, and refuses those to come. The first reason counts.
  void end_all(const absl::Status& reason);

 private:
  using Clock = std::chrono::steady_clock;
  using Which = std::function<bool(Id, const NameWait&)>;

  void end_those(const Which& which, const absl::StatusOr<bool>& exists);
  // On the loop's thread.
  void watch_deadlines();

  EventLoop& loop_;
  EventLoop::TimerId timer_;  // belongs to the loop's thread

  wire::Mutex mutex_;
  std::size_t per_uid_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // not OK after end_all()
  Id last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Id, NameWait> waits_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uid_t, std::size_t> by_uid_ ABSL_GUARDED_BY(mutex_);
  // The first deadline, for which the timer is set or will be.
  Clock::time_point next_ ABSL_GUARDED_BY(mutex_) = Clock::time_point::max();
};

}  // namespace memlease::server
