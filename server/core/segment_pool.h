// A device's segments and the arrays' places in them: one class of segments per access domain.
// Small arrays share segments that grow within the backend's bounds; a large one has its own.
//
// Empty segments are kept warm for their class (faulting fresh pages in costs fifteen times more
// than using old ones again), up to warm_bytes in all: the user who has most of them gives his
// oldest one back first. A segment never changes its class: who once mapped it can still see it.
//
// A user is charged for whole segments, too: small arrays that are left alone in large ones keep
// memory that others could have. His warm ones go before he is refused any. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/core/access.h"
#include "server/core/arena.h"
#include "server/core/device_backend.h"
#include "server/core/file_table.h"
#include "server/core/quota.h"
#include "server/core/shared_memory.h"
#include "wire/ids.h"
#include "wire/memory_ceiling.h"

namespace memlease::server {

class SegmentPool {
 public:
  struct Limits {
    std::uint64_t memory_bytes = 0;                  // taken from the system at most; 0 = no limit
    std::uint64_t warm_bytes = 0;                    // of it, in empty segments
    std::string_view option = "memory_limit_bytes";  // the setting that an error names
  };

  // `quota`: the device's.
  SegmentPool(FileTable& files, DeviceBackend& backend, Quota& quota, const Limits& limits);
  DeviceBackend& backend() const { return backend_; }

  // What a place of this size takes: with what follows it until the next one may begin.
  std::uint64_t place_bytes(std::uint64_t size_bytes) const;
  // A place in the segments that are there, if there is one. A size of 0 gets a place, too.
  std::optional<wire::FileRange> place(const AccessDomain& domain, std::uint64_t size_bytes);

  // Memory that a class needs beyond what is there. Committing it takes about half a second for
  // each GiB, so the core does not do it: reserve, make, add, then ask for places again.
  struct Growth {
    std::string device;
    AccessDomain domain;
    std::uint64_t size_bytes = 0;
    std::uint64_t needed_bytes = 0;  // of them; the rest is for what comes next
    wire::ReserveKept kept = {};     // of what is kept free, by what is needed
    std::uint64_t number = 0;        // for whoever asked; never used again
  };
  // For `count` places of this size. Books the bytes and charges them and the descriptor, for which
  // the user's own warm segments go where he has none left. kQuotaExceeded, kOutOfMemory; perhaps
  // only until what is on its way has gone (FileTable::going).
  absl::StatusOr<Growth> reserve(const AccessDomain& domain, std::uint64_t size_bytes,
                                 std::uint64_t count);
  // All of it, or what is needed, where there is no more: then the growth is as small. For whoever
  // has little so far the last of the machine's is left.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> make(DeviceBackend& backend, Growth& growth);
  // What has become of a reservation: the memory, or why there is none (returned again).
  absl::Status add(const Growth& growth, absl::StatusOr<std::unique_ptr<SharedMemory>> memory);

  // What place() has given for this size.
  void free(const AccessDomain& domain, wire::FileRange at, std::uint64_t size_bytes);
  // Gives empty segments back until they keep within warm_bytes. free() does so; what add() has
  // brought stays for whoever asked for it until this is called.
  void return_surplus();

  // Gives warm segments back until what is taken keeps within them, as far as that goes.
  void set_limits(const Limits& limits);

  std::uint64_t memory_bytes() const { return memory_bytes_ + kept_bytes(); }
  // Of it, in segments that have gone and have not been given back yet: above all those that
  // somebody can still write.
  std::uint64_t kept_bytes() const { return going_.bytes + going_.kept_bytes; }
  std::uint64_t warm_bytes() const { return warm_bytes_; }
  std::uint64_t memory_limit_bytes() const { return limits_.memory_bytes; }

 private:
  friend class Auditor;  // server/core/audit.h
  struct Segment {
    wire::FileId file{0};
    Arena arena;
    std::uint64_t emptied = 0;  // order in which it became empty
    Charge bytes;
    Charge warm;  // while it is empty
  };
  struct Reservation {
    std::uint64_t size_bytes;
    Charge descriptor;
    Charge bytes;
  };
  using Class = std::vector<Segment>;

  std::uint64_t next_segment_bytes(const AccessDomain& domain, std::uint64_t needed_bytes) const;
  absl::StatusOr<Charge> charge_descriptor(uid_t uid);
  // Charges the bytes, and makes room for them within memory_bytes.
  absl::StatusOr<Charge> charge_bytes(uid_t uid, std::uint64_t size_bytes);
  bool fits_later(const Account& account, std::uint64_t size_bytes,
                  std::uint64_t beside_bytes = 0) const;
  absl::Status make_room(std::uint64_t size_bytes);
  // Gives the segment that has been empty longest back to the system: of those on an account, or on
  // the one that has most bytes in such. False if there is none. Nothing is won before it has gone.
  bool return_oldest(const Account* of);
  bool return_oldest() { return return_oldest(warmest()); }
  const Account* warmest() const;
  void keep_warm(Segment& segment, uid_t uid);

  FileTable& files_;
  DeviceBackend& backend_;
  Quota& quota_;
  const DeviceBackend::SegmentSizes sizes_;
  Limits limits_;
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t warm_bytes_ = 0;
  FileTable::Going going_;
  std::uint64_t emptied_ = 0;
  std::uint64_t last_growth_ = 0;
  absl::flat_hash_map<AccessDomain, Class> classes_;
  // By the numbers of reservations that add() has not ended yet.
  absl::flat_hash_map<std::uint64_t, Reservation> growing_;
};

}  // namespace memlease::server
