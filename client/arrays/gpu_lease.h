// How writes of arrays on a GPU begin and end: what those of the host need not do. Called by the
// leases.
#pragma once

#include <memlease/lease.h>

#include <cstdint>

#include "absl/status/status.h"
#include "client/arrays/open_array.h"

namespace memlease::internal {

// A write that has just begun: behind `stream` if there is one. `copy`: with the current version's
// bytes, on the stream, or waiting for them.
absl::Status begin_gpu_write(OpenArray& array, std::uint32_t slot, Stream stream, bool copy,
                             LeaseStreams& streams);

// Ends a write, whatever happens. After an error of a publish the write has been dropped.
absl::Status end_gpu_write(OpenArray& array, std::uint32_t slot, std::uint64_t version,
                           bool publish, Stream said, LeaseStreams& streams);

}  // namespace memlease::internal
