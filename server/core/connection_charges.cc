#include "server/core/connection_charges.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace memlease::server {

absl::Status ConnectionCharges::connected(uid_t uid) {
  auto connection = quota_.charge(uid, Resource::kConnections, 1);
  if (!connection.ok()) return connection.status();
  const uid_t payer = quota_.account(uid).uid();
  User& user = users_[payer];
  user.connections.push_back(*std::move(connection));
  auto status = settle(payer, user);
  if (!status.ok()) disconnected(uid);
  return status;
}

void ConnectionCharges::disconnected(uid_t uid) {
  const auto user = users_.find(quota_.account(uid).uid());
  user->second.connections.pop_back();
  if (user->second.connections.empty()) {
    users_.erase(user);
  } else {
    sessions_changed(uid);
  }
}

// There is room for a connection in what a session has just given back, unless limits have been
// lowered: then it is charged once there is.
void ConnectionCharges::sessions_changed(uid_t uid) {
  const uid_t payer = quota_.account(uid).uid();
  if (const auto user = users_.find(payer); user != users_.end()) {
    settle(payer, user->second).IgnoreError();
  }
}

absl::Status ConnectionCharges::settle(uid_t payer, User& user) const {
  if (quota_.has_reserve(payer)) return absl::OkStatus();
  const std::size_t connections = user.connections.size();
  const std::size_t sessions = quota_.used_by(payer).sessions;
  const std::size_t beyond = connections - std::min(connections, sessions);
  while (user.descriptors.size() > beyond) user.descriptors.pop_back();
  while (user.descriptors.size() < beyond) {
    auto charge = quota_.charge(payer, Resource::kDescriptors, kDescriptors);
    if (!charge.ok()) {
      if (!user.descriptors.empty()) return charge.status();
      charge = quota_.account(payer).empty_charge(Resource::kDescriptors);
      charge->add_anyway(kDescriptors);
    }
    user.descriptors.push_back(*std::move(charge));
  }
  return absl::OkStatus();
}

}  // namespace memlease::server
