#include "server/rpc/history_waits.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace memlease::server {

absl::StatusOr<HistoryWaits::Id> HistoryWaits::add(HistoryWait wait) {
  const wire::MutexLock lock(mutex_);
  if (!closed_.ok()) return closed_;
  waits_.emplace(++last_id_, std::move(wait));
  return last_id_;
}

void HistoryWaits::end(Id id, const absl::Status& status) {
  end_those([id](Id other, const HistoryWait&) { return other == id; }, status);
}

void HistoryWaits::happened(std::span<const HistoryEvent> events) {
  const auto is_told = [events](Id, const HistoryWait& wait) {
    return std::ranges::any_of(events, [&](const HistoryEvent& event) {
      return event.number > wait.after && may_see(wait.viewer, event);
    });
  };
  end_those(is_told, absl::OkStatus());
}

void HistoryWaits::end_all(const absl::Status& reason) {
  {
    const wire::MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = reason;
  }
  end_those([](Id, const HistoryWait&) { return true; }, reason);
}

std::size_t HistoryWaits::size() const {
  const wire::MutexLock lock(mutex_);
  return waits_.size();
}

void HistoryWaits::end_those(const Which& which, const absl::Status& status) {
  std::vector<HistoryWait> ended;
  {
    const wire::MutexLock lock(mutex_);
    for (auto it = waits_.begin(); it != waits_.end();) {
      if (!which(it->first, it->second)) {
        ++it;
        continue;
      }
      ended.push_back(std::move(it->second));
      ended.back().charge = {};  // before its client may call again
      it = waits_.erase(it);
    }
  }
  for (const HistoryWait& wait : ended) wait.done(status);
}

}  // namespace memlease::server
