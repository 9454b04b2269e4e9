// The streams of one lease of an array on a GPU: what they are made to wait for, and where the
// lease's work ends. Called by the leases and by copies.
#pragma once

#include <memlease/lease.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/ordering/gpu_array.h"

namespace memlease::internal {

// What `stream` is given from now on runs behind the version, or behind all that the slot about to
// be written has been used for. The stream waits for that, or the host, as the daemon says.
absl::Status stream_wait_version(GpuArray& array, std::uint32_t slot, std::uint64_t version,
                                 Stream stream, const LeaseStreams& streams);
absl::Status stream_wait_slot(GpuArray& array, Stream stream, const LeaseStreams& streams);

// The host waits for a lease until `complete` says so. Ends with the daemon and with an interrupt,
// too.
absl::Status host_wait_complete(Session& session, const LeaseStreams& streams,
                                absl::FunctionRef<absl::StatusOr<bool>()> complete);

// As stream_wait_version and stream_wait_slot (for order_write behind the lease's own work, too),
// and notes in `streams` that this is ordered: later calls of ..._once do not wait again, and a
// second stream makes the end of the lease's work ambiguous. Not noted after an error. They block
// only where the daemon says that hosts wait. Errors: the importer's; of a read kProducerDied if a
// host waits for a version that was lost; kTimeout if other processes' work does not end within the
// daemon's limit; kDaemonLost and kInterrupted in a wait of the host.
absl::Status order_read(GpuArray& array, std::uint32_t slot, std::uint64_t version, Stream stream,
                        LeaseStreams& streams);
absl::Status order_write(GpuArray& array, std::uint32_t slot, Stream stream, LeaseStreams& streams);

// Before the bytes are handed to somebody who may touch them at once: waits for the device unless a
// stream has been made to.
absl::Status host_wait_version_once(GpuArray& array, std::uint32_t slot, std::uint64_t version,
                                    LeaseStreams& streams);
absl::Status host_wait_slot_once(GpuArray& array, LeaseStreams& streams);

// The same whatever has waited already.
absl::Status host_wait_version(GpuArray& array, std::uint32_t slot, std::uint64_t version,
                               LeaseStreams& streams);
absl::Status host_wait_slot(GpuArray& array, std::uint32_t slot, LeaseStreams& streams);

// For a view whose user works on `stream`: what that is given from now on runs behind all that a
// write lease's slot has been used for, and behind the lease's own work.
absl::Status order_write_view(GpuArray& array, std::uint32_t slot, Stream stream,
                              const LeaseStreams& streams);
// A view has been made to wait: something has been ordered, and nobody knows where its work ends
// unless it works where the lease does.
inline void note_view(LeaseStreams& streams, Stream consumer) {
  streams.ordered = true;
  streams.over = false;
  if (consumer && streams.stream && consumer != streams.stream) streams.ambiguous = true;
}

// A stream for a view: the lease's, or one of ours that `wait` has made to wait.
absl::StatusOr<Stream> export_stream(GpuArray& array, LeaseStreams& streams,
                                     absl::FunctionRef<absl::Status(Stream)> wait);

// The stream on which the lease's work ends, by what its user says or has said; none: nobody knows.
Stream end_of(const LeaseStreams& streams, Stream said);
// Together with the stream that its views were given.
inline WorkEnd work_end(const LeaseStreams& streams, Stream said) {
  return {end_of(streams, said), streams.view_stream, streams.over && !said};
}

}  // namespace memlease::internal
