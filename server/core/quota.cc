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
         usage_->sessions >= amount_.sessions);
  usage_->bytes -= amount_.bytes;
  usage_->arrays -= amount_.arrays;
  usage_->sessions -= amount_.sessions;
}

absl::StatusOr<Quota::Charge> Quota::charge(uid_t uid, const Usage& amount) {
  Usage& used = usage_[uid];
  for (const absl::Status& status :
       {check(uid, options_, "bytes", device_, used.bytes, amount.bytes, limits_.bytes),
        check(uid, options_, "arrays", "", used.arrays, amount.arrays, limits_.arrays),
        check(uid, options_, "sessions", "", used.sessions, amount.sessions, limits_.sessions)}) {
    if (!status.ok()) return status;
  }
  used.bytes += amount.bytes;
  used.arrays += amount.arrays;
  used.sessions += amount.sessions;
  return Charge(&used, amount);
}

}  // namespace memlease::server
