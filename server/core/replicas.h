// The replicas of an array: arrays of their own, of the same spec on other devices, whose versions
// are numbered with the home's. Clients copy and number them (client/arrays/replicas.h); the daemon
// makes them, and lets them go. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/access.h"
#include "server/core/array.h"
#include "server/core/array_store.h"
#include "server/core/catalog.h"
#include "server/core/segment_pool.h"
#include "server/core/writer_ownership.h"

namespace memlease::server {

class Replicas {
 public:
  Replicas(const Catalog& catalog, ArrayStore& store, const WriterOwnership& ownership)
      : catalog_(catalog), store_(store), ownership_(ownership) {}

  // nullptr for an array that is none, and where the home has gone.
  Array* home_of(const Array& replica) const;
  // The replica of a number that has not been withdrawn; nullptr if there is none.
  Array* find(const Array& home, std::uint32_t number) const;
  // The home's replica on a device that is there, made unless it is there: a new one is the
  // caller's to enter into the catalog; or the memory that must be made first. kDenied: there is
  // none, and the viewer may not write the array; kInvalidArgument: the array is a replica itself,
  // or is on that device; kQuotaExceeded, also where it has as many as the board has bits for;
  // kOutOfMemory.
  using Found = std::variant<Array*, std::unique_ptr<Array>, SegmentPool::Growth>;
  absl::StatusOr<Found> find_or_make(Array& home, const std::string& device,
                                     const PeerIdentity& viewer);
  // Versions are about to be written there that its home does not have. kInvalidArgument: it is no
  // replica.
  absl::Status write_elsewhere(const Array& replica);
  // Nothing would be lost with it. False while a GPU is at work on either.
  bool home_has_all(const Array& replica) const;
  // The same, and no write on it is under way, nor begins from now on.
  bool may_let_go(Array& replica) const;

 private:
  absl::StatusOr<std::uint32_t> free_number(const Array& home, const std::string& device) const;

  const Catalog& catalog_;
  ArrayStore& store_;
  const WriterOwnership& ownership_;
};

// Refusals.
absl::Status no_such_replica(const Array& home, std::uint32_t number);  // kNotFound
absl::Status has_what_its_home_lacks(const Array& replica);             // kBusy

}  // namespace memlease::server
