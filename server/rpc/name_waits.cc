#include "server/rpc/name_waits.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

void NameWaits::set_per_uid(std::size_t per_uid) {
  const wire::MutexLock lock(mutex_);
  per_uid_ = per_uid;
}

absl::StatusOr<NameWaits::Id> NameWaits::add(NameWait wait) {
  const wire::MutexLock lock(mutex_);
  if (!closed_.ok()) return closed_;
  std::size_t& count = by_uid_[wait.peer.uid];
  if (count >= per_uid_) {
    return wire::make_error(
        wire::ErrorCode::kQuotaExceeded,
        fmt::format("uid {} waits in {} calls for arrays, and may not wait in more", wait.peer.uid,
                    count),
        "Wait for fewer names at once, or raise quota_sessions, from which the limit comes.");
  }
  ++count;
  if (wait.deadline < next_) {
    next_ = wait.deadline;
    loop_.post([this] { watch_deadlines(); });
  }
  waits_.emplace(++last_id_, std::move(wait));
  return last_id_;
}

void NameWaits::end(Id id, const absl::StatusOr<bool>& exists) {
  end_those([id](Id other, const NameWait&) { return other == id; }, exists);
}

void NameWaits::created(const std::string& name, const AccessDomain& domain) {
  end_those(
      [&](Id, const NameWait& wait) { return wait.name == name && may_read(wait.peer, domain); },
      true);
}

void NameWaits::end_session(wire::SessionId session) {
  end_those([session](Id, const NameWait& wait) { return wait.session == session; },
            wire::make_error(wire::ErrorCode::kDaemonLost, "the session that waited has ended",
                             "Connect again."));
}

void NameWaits::end_all(const absl::Status& reason) {
  {
    const wire::MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = reason;
  }
  end_those([](Id, const NameWait&) { return true; }, reason);
}

void NameWaits::end_those(const Which& which, const absl::StatusOr<bool>& exists) {
  std::vector<NameWait> ended;
  {
    const wire::MutexLock lock(mutex_);
    for (auto it = waits_.begin(); it != waits_.end();) {
      if (!which(it->first, it->second)) {
        ++it;
        continue;
      }
      const auto count = by_uid_.find(it->second.peer.uid);
      if (--count->second == 0) by_uid_.erase(count);
      ended.push_back(std::move(it->second));
      it = waits_.erase(it);
    }
  }
  for (const NameWait& wait : ended) wait.done(exists);
}

void NameWaits::watch_deadlines() {
  const auto now = Clock::now();
  end_those([now](Id, const NameWait& wait) { return wait.deadline <= now; }, false);
  loop_.cancel(timer_);
  const wire::MutexLock lock(mutex_);
  next_ = Clock::time_point::max();
  for (const auto& [id, wait] : waits_) next_ = std::min(next_, wait.deadline);
  if (waits_.empty()) return;
  timer_ = loop_.after(std::chrono::ceil<std::chrono::milliseconds>(next_ - now),
                       [this] { watch_deadlines(); });
}

}  // namespace memlease::server
