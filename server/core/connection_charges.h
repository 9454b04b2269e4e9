// Charges for control connections, and for the descriptors of those of users who share the daemon's
// with others. A session's charge has room for its connection's; for what a user has beyond his
// sessions they are charged here. Not thread-safe.
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
  // Of a connection: its own, and the gate's two.
  static constexpr std::uint64_t kDescriptors = 3;

  // kQuotaExceeded, with nothing changed.
  absl::Status connected(uid_t uid);
  void disconnected(uid_t uid);
  // One of the user's sessions has begun, or has given its charge back.
  void sessions_changed(uid_t uid);

 private:
  friend class Auditor;  // server/core/audit.h
  struct User {
    std::vector<Charge> connections;
    std::vector<Charge> descriptors;  // of those that sessions have no room for
  };
  // Charges the descriptors that are to be charged, and no others. The first is charged whatever
  // the limit is: by that connection a user can look, and withdraw what is too much, also where
  // limits have been lowered or others have come.
  absl::Status settle(uid_t payer, User& user) const;

  Quota& quota_;
  absl::flat_hash_map<uid_t, User> users_;  // who have connections, by who pays
};

}  // namespace memlease::server
