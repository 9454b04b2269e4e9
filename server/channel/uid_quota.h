// How many clients of one uid may be in a state that costs the daemon descriptors which no other
// quota counts: in the middle of the attach handshake, or late to read an answer.
#pragma once

#include <sys/types.h>

#include <optional>
#include <unordered_map>
#include <utility>

namespace memlease::server {

// Outlives its charges. Not thread-safe.
class UidQuota {
 public:
  // Undoes itself.
  class Charge {
   public:
    Charge(Charge&& other) noexcept
        : quota_(std::exchange(other.quota_, nullptr)), uid_(other.uid_) {}
    Charge& operator=(Charge&&) = delete;
    ~Charge() { uncharge(); }
    void uncharge() {
      if (quota_ != nullptr) std::exchange(quota_, nullptr)->uncharge(uid_);
    }

   private:
    friend class UidQuota;
    Charge(UidQuota* quota, uid_t uid) : quota_(quota), uid_(uid) {}
    UidQuota* quota_;
    uid_t uid_;
  };

  explicit UidQuota(unsigned per_uid) : per_uid_(per_uid) {}

  // Nothing if the uid has as many as it may.
  std::optional<Charge> charge(uid_t uid) {
    const auto [entry, is_new] = charged_.try_emplace(uid, 0);
    if (entry->second >= per_uid_) return std::nullopt;
    ++entry->second;
    return Charge(this, uid);
  }

 private:
  void uncharge(uid_t uid) {
    const auto entry = charged_.find(uid);
    if (--entry->second == 0) charged_.erase(entry);
  }

  const unsigned per_uid_;
  std::unordered_map<uid_t, unsigned> charged_;
};

}  // namespace memlease::server
