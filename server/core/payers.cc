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
  const auto pays = [&](uid_t user) { return user >= kFirstOrdinaryUser && user != own_uid_; };
  uid_t payer = uid;
  for (const SubordinateUids& range : ranges_) {
    if (range.user == uid) return uid;
    const bool has = uid >= range.first && uid - range.first < range.count;
    if (has && pays(range.user)) payer = range.user;
  }
  return payer;
}

}  // namespace memlease::server
