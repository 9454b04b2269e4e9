// The replicas of an array: arrays of their own, of the same spec on other devices, whose versions
// are numbered with the home's. Clients copy and number them (client/arrays/replicas.h); the daemon
// makes them, and lets them go. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/array.h"
#include "server/core/catalog.h"
#include "server/core/writer_ownership.h"
#include "wire/array_spec.h"

namespace memlease::server {

// One that has not been withdrawn; nullptr if there is none.
Array* find_replica(const Catalog& catalog, const Array& home, const std::string& device);
Array* find_replica(const Catalog& catalog, const Array& home, std::uint32_t number);

// For a new one. kInvalidArgument: the array is a replica itself, or is on that device;
// kQuotaExceeded: it has as many as the board has bits for.
absl::StatusOr<std::uint32_t> number_for_replica(const Catalog& catalog, const Array& home,
                                                 const std::string& device);
wire::ArraySpec spec_of_replica(const Array& home, const std::string& device);

// Nothing would be lost with the replica. False while a GPU is at work on either.
bool home_has_all(const WriterOwnership& ownership, const Array& home, const Array& replica);

// Refusals.
absl::Status may_not_make_replica(const Array& home, const std::string& device,
                                  uid_t viewer);                        // kDenied
absl::Status no_such_replica(const Array& home, std::uint32_t number);  // kNotFound
absl::Status is_no_replica(const Array& array);                         // kInvalidArgument
absl::Status has_what_its_home_lacks(const Array& replica);             // kBusy

}  // namespace memlease::server
