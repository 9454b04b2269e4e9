// Copies on a device's stream: into the slot of a lease, out of it, and from memory of others.
// Called by Array and the leases.
#pragma once

#include <memlease/lease.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/open_array.h"
#include "client/ordering/element_layout.h"

namespace memlease::internal {

// From one slot to that of a write which has just begun. On the stream; without one it waits.
absl::Status copy_within_device(OpenArray& array, std::uint32_t from, std::uint32_t slot,
                                Stream stream, LeaseStreams& streams);

// Between `part` of a lease's slot and C-ordered host memory. The host waits for what comes before,
// the lease's own work too, then for the copy. `only_use`: nothing else is done with the lease that
// has not been waited for then, so that it ends where the copy does.
absl::Status put_to_device(OpenArray& array, std::uint32_t slot, const ElementLayout& part,
                           const std::byte* packed, bool only_use, LeaseStreams& streams);
absl::Status get_from_device(OpenArray& array, std::uint32_t slot, std::uint64_t version,
                             const ElementLayout& part, std::byte* packed, bool only_use,
                             LeaseStreams& streams);

// A version from where it is held on one device to a write lease's slot on another, of an array of
// the same spec. Waits for what comes before and for the copy: nothing is under way afterwards.
absl::Status copy_version(OpenArray& from, std::uint32_t from_slot, std::uint64_t version,
                          LeaseStreams& from_streams, OpenArray& to, std::uint32_t slot,
                          LeaseStreams& streams);

// The same from the host to a GPU, on a stream that has been made to wait for the slot
// (begin_gpu_write). The version is kept until it has been copied, and a later call sees that.
absl::Status copy_version_on(OpenArray& from, std::uint32_t from_slot, OpenArray& to,
                             std::uint32_t slot, Stream stream);

// Can it be copied into this part of this array? Asked before there is a lease. By whom: null if
// there are no elements.
absl::StatusOr<Importer*> check_source(OpenArray& array, const ElementLayout& part,
                                       const GpuSource& source);
// From such a source, by what check_source() has told, into the slot of a write lease, of a device
// or of the host. On the lease's stream; without one, and always into the host's memory, it waits
// for the copy. `only_use` as above.
absl::Status put_from_gpu(OpenArray& array, std::uint32_t slot, const ElementLayout& part,
                          const GpuSource& source, Importer* by, bool only_use,
                          LeaseStreams& streams);

}  // namespace memlease::internal
