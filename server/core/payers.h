// On whose account a uid spends: as a rule on its own. But /etc/subuid gives users uids beyond
// theirs, by the ten thousand, for their containers: who was one user for each of them could take
// everybody's part. What these uids spend their user pays. Ranges of root and of services are for
// those who manage others' containers: there each uid pays for itself, as everywhere else.
//
// Only what is paid is one: what each uid may see and open stays its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "wire/mutex.h"

namespace memlease::server {

// For those who charge: Payers::of(), or this.
using PayerOf = std::function<uid_t(uid_t uid)>;
inline uid_t pays_for_itself(uid_t uid) { return uid; }

struct SubordinateUids {
  uid_t user = 0;
  uid_t first = 0;
  std::uint32_t count = 0;
};

// Thread-safe; calls nothing under its mutex.
class Payers {
 public:
  static constexpr uid_t kFirstOrdinaryUser = 1000;  // by the conventions of Linux

  // Who pays for nobody else, and for whom nobody pays: root, and `own_uid`, the daemon's.
  explicit Payers(uid_t own_uid = 0) : own_uid_(own_uid) {}
  Payers(const Payers&) = delete;
  Payers& operator=(const Payers&) = delete;

  // For uids that have not been asked for yet: the others may have accounts, and keep their payers.
  void set(std::vector<SubordinateUids> ranges) ABSL_LOCKS_EXCLUDED(mutex_);
  // Who pays for somebody pays for himself.
  uid_t of(uid_t uid) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  uid_t find(uid_t uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uid_t own_uid_;
  wire::Mutex mutex_;
  std::vector<SubordinateUids> ranges_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uid_t, uid_t> known_ ABSL_GUARDED_BY(mutex_);  // who have been asked for
};

}  // namespace memlease::server
