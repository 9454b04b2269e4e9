// All sessions, and who may speak for one. Not thread-safe: part of the core. A session stays at
// its address until it is erased.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/core/session.h"

namespace memlease::server {

class SessionTable {
 public:
  // No session that is here has its id.
  Session& add(std::unique_ptr<Session> session);
  Session* find(wire::SessionId id) const;  // nullptr if there is none
  // Ends what it has charged, and every pointer to it. Nothing if there is none.
  void erase(wire::SessionId id);
  std::size_t size() const { return sessions_.size(); }
  // In no order.
  std::vector<Session*> all() const;

  // The session of these 36 bytes (its id, then its token), for a call on a connection of `uid`.
  // One answer for all that is wrong; takes the same time for any token. kDenied.
  absl::StatusOr<Session*> authenticate(std::span<const std::uint8_t> credential, uid_t uid) const;

 private:
  absl::flat_hash_map<wire::SessionId, std::unique_ptr<Session>> sessions_;
};

}  // namespace memlease::server
