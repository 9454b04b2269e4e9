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
#include "server/core/payers.h"

namespace memlease::server {

// What the daemon has for all users. All leave an eighth to root and the daemon's own user, who are
// bound by their limits alone; the more of them share the rest, the smaller is the part that one
// may have of what the others leave.
struct Supply {
  std::uint64_t descriptors = 0;  // 0: without end
  std::uint64_t connections = 0;  // likewise
  uid_t own_uid = 0;
};

class Quota {
 public:
  using Accounts = absl::node_hash_map<uid_t, Account>;

  // Per uid. `options`: how the settings begin that an error names, "gpu_quota_". `device`: where
  // the bytes are, as an error says it.
  explicit Quota(const Usage& limits, std::string_view options = "quota_",
                 std::string device = "host", PayerOf payer_of = pays_for_itself)
      : limits_(limits, options, std::move(device)), payer_of_(std::move(payer_of)) {}
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // On which the uid spends, which stays where it is for as long as this lives.
  Account& account(uid_t uid) {
    const uid_t payer = payer_of_(uid);
    return accounts_.try_emplace(payer, payer, limits_).first->second;
  }
  // kQuotaExceeded, with nothing changed: also where descriptors or connections would be more than
  // the uid's part of the supply.
  absl::StatusOr<Charge> charge(uid_t uid, Resource what, std::uint64_t amount);
  Usage limits() const { return limits_.all(); }
  // For charges from now on: what a uid has beyond them stays.
  void set_limits(const Usage& limits) { limits_.set(limits); }
  void set_supply(const Supply& supply) { supply_ = supply; }
  bool has_reserve(uid_t uid) const { return uid == 0 || uid == supply_.own_uid; }
  // nullptr: nothing was ever charged there.
  const Account* find(uid_t uid) const {
    const auto it = accounts_.find(payer_of_(uid));
    return it == accounts_.end() ? nullptr : &it->second;
  }
  Usage used_by(uid_t uid) const {
    const Account* const account = find(uid);
    return account == nullptr ? Usage{} : account->usage();
  }
  // Of all uids together.
  std::uint64_t used(Resource what) const;
  // Likewise, beyond what anybody may have.
  std::uint64_t heap_bytes() const;
  // By the uids of those who pay, of everybody who was ever charged.
  const Accounts& accounts() const { return accounts_; }

 private:
  absl::Status check_supply(const Account& account, Resource what, std::uint64_t amount) const;

  AccountLimits limits_;
  const PayerOf payer_of_;
  Supply supply_;
  Accounts accounts_;
};

}  // namespace memlease::server
