// What leases of device arrays do that those of the host need not: order streams, or wait in their
// place. Called by Array and the leases.
#pragma once

#include <memlease/lease.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/core/array_state.h"

namespace memlease::internal {

// What `stream` is given from now on runs behind the version, or behind all that the slot about to
// be written has been used for. The stream waits for that, or the host, as the daemon says.
absl::Status await_version(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                           Stream stream);
absl::Status await_slot(ArrayState& array, Stream stream);

// A write that has just begun: behind `stream` if there is one. `copy`: with the current version's
// bytes, on the stream, or waiting for them.
absl::Status begin_device_write(ArrayState& array, std::uint32_t slot, Stream stream, bool copy,
                                Ordering& ordering);

// In place of a stream: the host waits. Ends with the daemon, with an interrupt, and when it is
// known that what is waited for will not come. `version`: 0 where it is that of none.
absl::Status host_wait(ArrayState& array, std::uint64_t version,
                       absl::FunctionRef<absl::StatusOr<bool>()> complete);

absl::Status wait_read(ArrayState& array, std::uint32_t slot, std::uint64_t version, Stream stream,
                       Ordering& ordering);
absl::Status wait_write(ArrayState& array, std::uint32_t slot, Stream stream, Ordering& ordering);

// Before the bytes are handed to somebody who may touch them at once: waits for the device unless a
// stream has been made to.
absl::Status ready_read(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                        Ordering& ordering);
absl::Status ready_write(ArrayState& array, Ordering& ordering);

// The same whatever has waited already.
absl::Status await_read(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                        Ordering& ordering);
absl::Status await_write(ArrayState& array, std::uint32_t slot, Ordering& ordering);

// For a view whose user works on `stream`: what that is given from now on runs behind all that a
// write lease's slot has been used for, and behind the lease's own work.
absl::Status wait_write_view(ArrayState& array, std::uint32_t slot, Stream stream,
                             const Ordering& ordering);
// A view has been made to wait: something has been ordered, and nobody knows where its work ends
// unless it works where the lease does.
inline void note_view(Ordering& ordering, Stream consumer) {
  ordering.done = true;
  if (consumer && ordering.stream && consumer != ordering.stream) ordering.many = true;
}

// A stream for a view: the lease's, or one of ours that `wait` has made to wait.
absl::StatusOr<Stream> export_stream(ArrayState& array, Ordering& ordering,
                                     absl::FunctionRef<absl::Status(Stream)> wait);

// The stream on which the lease's work ends, by what its user says or has said; none: nobody knows.
Stream end_of(const Ordering& ordering, Stream said);
// Together with the stream that its views were given.
inline DeviceOrder::WorkEnd work_end(const Ordering& ordering, Stream said) {
  return {end_of(ordering, said), ordering.exported};
}

// Ends a write, whatever happens. After an error of a publish the write has been dropped.
absl::Status end_device_write(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                              bool publish, Stream said, Ordering& ordering);

}  // namespace memlease::internal
