// What one uid makes the daemon spend, each kind with its limit. Whatever costs the daemon
// something for as long as it lasts is paid by a charge, a value that takes itself back when it
// dies, so that nothing can be forgotten; when the account dies nothing is left in it.
//
// An account and its charges are thread-safe, and take no lock: calls that wait and requests under
// way are charged without the core's mutex. Accounts are Quota's, which outlives their charges.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memlease::server {

// In the order of Usage's members.
enum class Resource : std::uint8_t {
  kBytes,         // of arrays, in whole places
  kArrays,        // that have a name or are still used
  kSessions,      // connected processes, until they have exited
  kDescriptors,   // of the daemon's, as many as its sessions and files may take
  kPageBytes,     // of boards, takeover rows and session pages
  kFileNumbers,   // that its sessions know: they stay taken until these have ended
  kWaitingCalls,  // for events
  kRequests,      // under way by control connections, of other uids than the daemon's own
  kRequestBytes,  // of these requests' data
  kSegmentBytes,  // of the memory that its arrays are in, and of the room between and beside them
  kWarmBytes,     // of that, in empty segments
  kConnections,   // for calls
  kOpenArrays,    // of its sessions, each counted for each array that it has open
};
inline constexpr std::size_t kResources = 13;

// Of one resource on an account, also where there is no limit: more bytes than all memory that a
// machine can have.
inline constexpr std::uint64_t kMostCharged = (std::uint64_t{1} << 56) - 1;

// An amount of each; as limits, 0 = no limit.
struct Usage {
  std::uint64_t bytes = 0;
  std::uint64_t arrays = 0;
  std::uint64_t sessions = 0;
  std::uint64_t descriptors = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t file_numbers = 0;
  std::uint64_t waiting_calls = 0;
  std::uint64_t requests = 0;
  std::uint64_t request_bytes = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t warm_bytes = 0;
  std::uint64_t connections = 0;
  std::uint64_t open_arrays = 0;
  friend bool operator==(const Usage&, const Usage&) = default;
};

struct ResourceFacts {
  std::uint64_t Usage::* amount;
  std::string_view name;     // of what status shows: "page_bytes"
  std::string_view setting;  // that limits it, behind "quota_" or "gpu_quota_"
  std::string_view words;    // in an error
  std::string_view advice;   // what else to do about it than to raise the limit
};
const ResourceFacts& facts_of(Resource what);

// The limits of all accounts of a book, and how an error names them.
class AccountLimits {
 public:
  AccountLimits(const Usage& limits, std::string_view options, std::string device)
      : options_(options), device_(std::move(device)) {
    set(limits);
  }
  void set(const Usage& limits);
  Usage all() const;
  std::uint64_t of(Resource what) const {
    return limits_[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
  }
  std::string_view options() const { return options_; }
  const std::string& device() const { return device_; }

 private:
  std::array<std::atomic<std::uint64_t>, kResources> limits_{};
  const std::string_view options_;
  const std::string device_;
};

class Account;

// Of one resource. Movable; outlived by its account.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)),
        what_and_amount_(std::exchange(other.what_and_amount_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(what_and_amount_, other.what_and_amount_);
    return *this;
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge();

  // Makes a charge that is not empty larger. False: its limit does not allow that.
  bool add(std::uint64_t amount);
  // The same, whatever the limit is: for the rest of what has been begun within it.
  void add_anyway(std::uint64_t amount);
  // Makes it smaller.
  void give_back(std::uint64_t amount);

 private:
  friend class Account;
  friend class Auditor;  // server/core/audit.h
  Charge(Account& account, Resource what, std::uint64_t amount)
      : account_(&account),
        what_and_amount_(static_cast<std::uint64_t>(what) | amount << kWhatBits) {}
  Resource what() const { return static_cast<Resource>(what_and_amount_ & kWhatMask); }
  std::uint64_t amount() const { return what_and_amount_ >> kWhatBits; }

  // In one word, as there are several for each array.
  static constexpr unsigned kWhatBits = 8;
  static_assert(kMostCharged <= UINT64_MAX >> kWhatBits);
  static constexpr std::uint64_t kWhatMask = (1U << kWhatBits) - 1;
  Account* account_ = nullptr;
  std::uint64_t what_and_amount_ = 0;
};

class Account {
 public:
  // `limits` outlives it.
  Account(uid_t uid, const AccountLimits& limits) : uid_(uid), limits_(limits) {}
  // Everything has been taken back.
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // kQuotaExceeded, with nothing changed.
  absl::StatusOr<Charge> charge(Resource what, std::uint64_t amount);
  // What charge() would say.
  absl::Status may_spend(Resource what, std::uint64_t amount) const;
  // Whether it would be granted if the uid had `without` less of it.
  bool may_spend_without(Resource what, std::uint64_t amount, std::uint64_t without) const;
  // Nothing yet, to be made larger.
  Charge empty_charge(Resource what) { return {*this, what, 0}; }

  uid_t uid() const { return uid_; }
  std::uint64_t used(Resource what) const {
    return used_[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
  }
  Usage usage() const;
  // What the daemon's heap has for its arrays, and for who has them open; estimated, and rather too
  // much.
  std::uint64_t heap_bytes() const;
  // Whether it has so little memory, with so much more, that what is kept free for such as it may
  // be its.
  bool has_little(std::uint64_t more_bytes) const {
    return used(Resource::kSegmentBytes) + used(Resource::kPageBytes) + heap_bytes() + more_bytes <=
           kLittleBytes;
  }
  // Heap that it has, and that nobody has looked for; 0: none worth a look. Nobody looks for the
  // first of it, so that arrays can be read where memory is full, nor again for what comes and
  // goes. The core's alone.
  static constexpr std::uint64_t kHeapOfAnybody = std::uint64_t{8} << 20;
  std::uint64_t heap_to_look_for();
  // There was room for so much of it.
  void note_looked_for(std::uint64_t bytes) { looked_for_bytes_ += bytes; }

 private:
  friend class Charge;
  static constexpr std::uint64_t kLittleBytes = std::uint64_t{16} << 20;  // some small segments
  bool take(Resource what, std::uint64_t amount);
  void take_anyway(Resource what, std::uint64_t amount);
  void give_back(Resource what, std::uint64_t amount);
  absl::Status refusal(Resource what, std::uint64_t used, std::uint64_t amount) const;

  const uid_t uid_;
  const AccountLimits& limits_;
  std::array<std::atomic<std::uint64_t>, kResources> used_{};
  std::uint64_t looked_for_bytes_ = 0;
};

}  // namespace memlease::server
