#include "server/core/payers.h"

#include <utility>

namespace memlease::server {

void Payers::set(std::vector<SubordinateUids> ranges) {
  const wire::MutexLock lock(mutex_);
  ranges_ = std::move(ranges);
}

uid_t Payers::of(uid_t uid) {
  if (uid == 0 || uid == own_uid_) return uid;
  const wire::MutexLock lock(mutex_);
  const auto [known, is_new] = known_.try_emplace(uid, uid);
  if (is_new) known->second = find(uid);
  return known->second;
}

uid_t Payers::find(uid_t uid) const {
  for (const SubordinateUids& range : ranges_) {
    if (uid < range.first || uid - range.first >= range.count) continue;
    if (range.user >= kFirstOrdinaryUser) return range.user;
    return range.first + (uid - range.first) / kContainerUids * kContainerUids;
  }
  return uid;
}

}  // namespace memlease::server
