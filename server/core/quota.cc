#include "server/core/quota.h"

#include <cassert>
#include <string_view>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

absl::Status check(uid_t uid, std::string_view options, std::string_view what,
                   std::string_view device, std::uint64_t used, std::uint64_t amount,
                   std::uint64_t limit) {
  if (limit == 0 || amount == 0 || (used <= limit && amount <= limit - used)) {
    return absl::OkStatus();
  }
  return wire::make_error(
      wire::ErrorCode::kQuotaExceeded,
      fmt::format("uid {} uses {} of its {} {}{}, {} more are not allowed", uid, used, limit, what,
                  device.empty() ? "" : fmt::format(" on {}", device), amount),
      fmt::format("Withdraw arrays or close clients, or raise {}{}.", options, what));
}

}  // namespace

Quota::Charge::~Charge() {
  if (usage_ == nullptr) return;
  assert(usage_->bytes >= amount_.bytes && usage_->arrays >= amount_.arrays &&
         usage_->sessions >= amount_.sessions && usage_->descriptors >= amount_.descriptors);
  usage_->bytes -= amount_.bytes;
  usage_->arrays -= amount_.arrays;
  usage_->sessions -= amount_.sessions;
  usage_->descriptors -= amount_.descriptors;
}

Quota::~Quota() {
  for (const auto& [uid, used] : usage_) {
    assert(used.bytes == 0 && used.arrays == 0 && used.sessions == 0 && used.descriptors == 0);
    static_cast<void>(used);
  }
}

absl::Status Quota::check_supply(uid_t uid, std::uint64_t descriptors) const {
  const auto has_reserve = [&](uid_t who) { return who == 0 || who == supply_.own_uid; };
  if (supply_.descriptors == 0 || descriptors == 0 || has_reserve(uid)) return absl::OkStatus();
  std::uint64_t all = descriptors;
  for (const auto& [who, used] : usage_) {
    if (!has_reserve(who)) all += used.descriptors;
  }
  const std::uint64_t own = used_by(uid).descriptors + descriptors;
  if (own <= supply_.descriptors / 2 && all <= supply_.descriptors / 8 * 7) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kQuotaExceeded,
      fmt::format("uid {} would have {} and all users together {} of the {} descriptors that the "
                  "daemon may open: one user may have half, all leave an eighth to root",
                  uid, own, all, supply_.descriptors),
      "Withdraw arrays or close clients, or raise the daemon's limit of open files "
      "(LimitNOFILE).");
}

absl::StatusOr<Quota::Charge> Quota::charge(uid_t uid, const Usage& amount) {
  Usage& used = usage_[uid];
  for (const absl::Status& status :
       {check(uid, options_, "bytes", device_, used.bytes, amount.bytes, limits_.bytes),
        check(uid, options_, "arrays", "", used.arrays, amount.arrays, limits_.arrays),
        check(uid, options_, "sessions", "", used.sessions, amount.sessions, limits_.sessions),
        check(uid, options_, "descriptors", "", used.descriptors, amount.descriptors,
              limits_.descriptors),
        check_supply(uid, amount.descriptors)}) {
    if (!status.ok()) return status;
  }
  used.bytes += amount.bytes;
  used.arrays += amount.arrays;
  used.sessions += amount.sessions;
  used.descriptors += amount.descriptors;
  return Charge(&used, amount);
}

}  // namespace memlease::server
