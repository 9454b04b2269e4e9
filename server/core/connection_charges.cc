#include "server/core/connection_charges.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace memlease::server {
namespace {

// Its own, and the gate's two.
constexpr std::uint64_t kConnectionDescriptors = 3;

}  // namespace

absl::Status ConnectionCharges::connected(uid_t uid) {
  User& user = users_[uid];
  ++user.connections;
  auto status = settle(uid, user);
  if (!status.ok()) disconnected(uid);
  return status;
}

void ConnectionCharges::disconnected(uid_t uid) {
  const auto user = users_.find(uid);
  if (--user->second.connections == 0) {
    users_.erase(user);
  } else {
    sessions_changed(uid);
  }
}

// There is room for a connection in what a session has just given back, unless limits have been
// lowered: then it is charged once there is.
void ConnectionCharges::sessions_changed(uid_t uid) {
  if (const auto user = users_.find(uid); user != users_.end()) {
    settle(uid, user->second).IgnoreError();
  }
}

absl::Status ConnectionCharges::settle(uid_t uid, User& user) const {
  const std::size_t sessions = quota_.used_by(uid).sessions;
  const std::size_t beyond = user.connections - std::min(user.connections, sessions);
  while (user.charges.size() > beyond) user.charges.pop_back();
  while (user.charges.size() < beyond) {
    auto charge = quota_.charge(uid, Resource::kDescriptors, kConnectionDescriptors);
    if (!charge.ok()) return charge.status();
    user.charges.push_back(*std::move(charge));
  }
  return absl::OkStatus();
}

}  // namespace memlease::server
