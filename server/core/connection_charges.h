// Charges for the control connections of users who share the daemon's descriptors with others. A
// session's charge has room for its connection; what a user has beyond his sessions is charged
// here. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/core/quota.h"

namespace memlease::server {

class ConnectionCharges {
 public:
  explicit ConnectionCharges(Quota& quota) : quota_(quota) {}

  // kQuotaExceeded, with nothing changed.
  absl::Status connected(uid_t uid);
  void disconnected(uid_t uid);
  // One of the user's sessions has begun, or has given its charge back.
  void sessions_changed(uid_t uid);

 private:
  friend class Auditor;  // server/core/audit.h
  struct User {
    std::size_t connections = 0;
    std::vector<Charge> charges;
  };
  // Charges as many of them as the sessions have no room for.
  absl::Status settle(uid_t uid, User& user) const;

  Quota& quota_;
  absl::flat_hash_map<uid_t, User> users_;  // who have connections
};

}  // namespace memlease::server
