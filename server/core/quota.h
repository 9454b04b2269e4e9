// The accounts of all uids, with their limits. The daemon has one book for what counts once,
// whatever the device, and each device one for the bytes there. Not thread-safe; the accounts are.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "server/core/account.h"

namespace memlease::server {

// What the daemon has for all users. All leave an eighth to root and the daemon's own user, who are
// bound by their limits alone; the more of them share the rest, the smaller is the part that one
// may have of what the others leave.
struct Supply {
  std::uint64_t descriptors = 0;  // 0: without end
  uid_t own_uid = 0;
};

class Quota {
 public:
  using Accounts = absl::node_hash_map<uid_t, Account>;

  // Per uid. `options`: how the settings begin that an error names, "gpu_quota_". `device`: where
  // the bytes are, as an error says it.
  explicit Quota(const Usage& limits, std::string_view options = "quota_",
                 std::string device = "host")
      : limits_(limits, options, std::move(device)) {}
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // The uid's, which stays where it is for as long as this lives.
  Account& account(uid_t uid) { return accounts_.try_emplace(uid, uid, limits_).first->second; }
  // kQuotaExceeded, with nothing changed: also where descriptors would be more than the uid's part
  // of the supply.
  absl::StatusOr<Charge> charge(uid_t uid, Resource what, std::uint64_t amount);
  Usage limits() const { return limits_.all(); }
  // For charges from now on: what a uid has beyond them stays.
  void set_limits(const Usage& limits) { limits_.set(limits); }
  void set_supply(const Supply& supply) { supply_ = supply; }
  Usage used_by(uid_t uid) const {
    const auto it = accounts_.find(uid);
    return it == accounts_.end() ? Usage{} : it->second.usage();
  }
  // Of all uids together.
  std::uint64_t used(Resource what) const;
  // By uid, of everybody who was ever charged.
  const Accounts& accounts() const { return accounts_; }

 private:
  absl::Status check_supply(uid_t uid, std::uint64_t descriptors) const;

  AccountLimits limits_;
  Supply supply_;
  Accounts accounts_;
};

}  // namespace memlease::server
