// What each uid uses, and its limits. The daemon has one for arrays, sessions and descriptors, and
// each device one for the bytes there. Every charge is a value that takes itself back when it dies,
// so that nothing can be forgotten; at the end none is left. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"

namespace memlease::server {

struct Usage {
  std::uint64_t bytes = 0;
  std::uint64_t arrays = 0;
  std::uint64_t sessions = 0;
  std::uint64_t descriptors = 0;  // of the daemon's, as many as its sessions and files may take
};

// What the daemon has for all users. A user may have half of it, and all together leave an eighth
// to root and the daemon's own user, who are bound by their limits alone.
struct Supply {
  std::uint64_t descriptors = 0;  // 0: without end
  uid_t own_uid = 0;
};

class Quota {
 public:
  // A part of one uid's usage. Movable; outlived by its Quota.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept
        : usage_(std::exchange(other.usage_, nullptr)), amount_(other.amount_) {}
    Charge& operator=(Charge&& other) noexcept {
      std::swap(usage_, other.usage_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;
    ~Charge();

   private:
    friend class Quota;
    Charge(Usage* usage, const Usage& amount) : usage_(usage), amount_(amount) {}
    Usage* usage_ = nullptr;
    Usage amount_;
  };

  // Per uid; 0 = no limit. `options`: how the settings begin that an error names, "gpu_quota_".
  // `device`: where the bytes are, as an error says it.
  explicit Quota(const Usage& limits, std::string_view options = "quota_",
                 std::string device = "host")
      : limits_(limits), options_(options), device_(std::move(device)) {}
  ~Quota();
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // kQuotaExceeded, with nothing changed.
  absl::StatusOr<Charge> charge(uid_t uid, const Usage& amount);
  const Usage& limits() const { return limits_; }
  // For charges from now on: what a uid has beyond them stays.
  void set_limits(const Usage& limits) { limits_ = limits; }
  void set_supply(const Supply& supply) { supply_ = supply; }
  Usage used_by(uid_t uid) const {
    const auto it = usage_.find(uid);
    return it == usage_.end() ? Usage{} : it->second;
  }
  // By uid, of everybody who was ever charged.
  const absl::node_hash_map<uid_t, Usage>& usage() const { return usage_; }

 private:
  absl::Status check_supply(uid_t uid, std::uint64_t descriptors) const;

  Usage limits_;
  Supply supply_;
  const std::string_view options_;
  const std::string device_;
  absl::node_hash_map<uid_t, Usage> usage_;
};

}  // namespace memlease::server
