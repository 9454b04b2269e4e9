#include "server/core/quota.h"

#include <algorithm>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

absl::StatusOr<Charge> Quota::charge(uid_t uid, Resource what, std::uint64_t amount) {
  Account& of_uid = account(uid);
  auto charged = of_uid.charge(what, amount);
  if (charged.ok()) {
    if (auto status = check_supply(of_uid, what, amount); !status.ok()) return status;
  }
  return charged;
}

std::uint64_t Quota::used(Resource what) const {
  std::uint64_t all = 0;
  for (const auto& [uid, of_uid] : accounts_) all += of_uid.used(what);
  return all;
}

std::uint64_t Quota::heap_bytes() const {
  std::uint64_t all = 0;
  for (const auto& [uid, of_uid] : accounts_) {
    const std::uint64_t bytes = of_uid.heap_bytes();
    all += bytes - std::min(bytes, Account::kHeapOfAnybody);
  }
  return all;
}

// With what is asked for charged already. An eighth is the reserve. Of the rest a uid may have an
// (n + 1)th of what the others leave, where n have something: half where it is alone, and something
// however much the others have (docs/decisions/0041-one-account.md).
absl::Status Quota::check_supply(const Account& account, Resource what,
                                 std::uint64_t amount) const {
  const std::uint64_t supply = what == Resource::kDescriptors   ? supply_.descriptors
                               : what == Resource::kConnections ? supply_.connections
                                                                : 0;
  if (supply == 0 || amount == 0 || has_reserve(account.uid())) return absl::OkStatus();
  const std::uint64_t own = account.used(what);
  std::uint64_t others = 0;
  std::uint64_t users = 1;
  for (const auto& [who, of_who] : accounts_) {
    const std::uint64_t used = of_who.used(what);
    if (has_reserve(who) || who == account.uid() || used == 0) continue;
    others += used;
    ++users;
  }
  const std::uint64_t shared = supply - (supply / 8);
  const std::uint64_t part = (shared - std::min(shared, others)) / (users + 1);
  if (own <= part) return absl::OkStatus();
  const bool of_descriptors = what == Resource::kDescriptors;
  return wire::make_error(
      wire::ErrorCode::kQuotaExceeded,
      fmt::format("uid {} would have {} of the {} {} that the daemon may {}, and may have {}: {} "
                  "other users have {}, and an eighth is left to root",
                  account.uid(), own, supply, facts_of(what).words,
                  of_descriptors ? "open" : "have", part, users - 1, others),
      of_descriptors ? "Withdraw arrays or close clients, or raise the daemon's limit of open "
                       "files (LimitNOFILE)."
                     : "Close clients, or raise quota_sessions.");
}

}  // namespace memlease::server
