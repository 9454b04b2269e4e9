#include "server/core/quota.h"

#include <algorithm>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

absl::StatusOr<Charge> Quota::charge(uid_t uid, Resource what, std::uint64_t amount) {
  Account& of_uid = account(uid);
  auto charged = of_uid.charge(what, amount);
  if (charged.ok() && what == Resource::kDescriptors) {
    if (auto status = check_supply(uid, amount); !status.ok()) return status;
  }
  return charged;
}

std::uint64_t Quota::used(Resource what) const {
  std::uint64_t all = 0;
  for (const auto& [uid, of_uid] : accounts_) all += of_uid.used(what);
  return all;
}

// With what is asked for charged already. An eighth is the reserve. Of the rest a uid may have an
// (n + 1)th of what the others leave, where n have something: half where it is alone, and something
// however much the others have (docs/decisions/0041-one-account.md).
absl::Status Quota::check_supply(uid_t uid, std::uint64_t descriptors) const {
  const auto has_reserve = [&](uid_t who) { return who == 0 || who == supply_.own_uid; };
  if (supply_.descriptors == 0 || descriptors == 0 || has_reserve(uid)) return absl::OkStatus();
  std::uint64_t own = 0;
  std::uint64_t others = 0;
  std::uint64_t users = 1;
  for (const auto& [who, of_who] : accounts_) {
    if (has_reserve(who)) continue;
    const std::uint64_t used = of_who.used(Resource::kDescriptors);
    if (who == uid) {
      own = used;
    } else if (used != 0) {
      others += used;
      ++users;
    }
  }
  const std::uint64_t shared = supply_.descriptors - (supply_.descriptors / 8);
  const std::uint64_t part = (shared - std::min(shared, others)) / (users + 1);
  if (own <= part) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kQuotaExceeded,
      fmt::format(
          "uid {} would have {} of the {} descriptors that the daemon may open, and may have "
          "{}: {} other users have {}, and an eighth is left to root",
          uid, own, supply_.descriptors, part, users - 1, others),
      "Withdraw arrays or close clients, or raise the daemon's limit of open files "
      "(LimitNOFILE).");
}

}  // namespace memlease::server
