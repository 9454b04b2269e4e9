// Port to a kind of device's memory. Implemented by server/device/{memfd,cuda}_device_backend, in
// tests by FakeMemory and FakeGpu. Daemon calls device() and create_segment() without its lock, the
// latter for several clients at once; the core calls the rest under it (SegmentPool, EventSet,
// ArrayStore, SessionRows, DeviceTable), so that none of that may block. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/shared_memory.h"
#include "wire/ids.h"
#include "wire/memory_ceiling.h"
#include "wire/shared_word.h"

namespace memlease::server {

// A kind of device whose memory arrays stand in.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  // The word on the wire: "host", or a GPU's UUID.
  virtual std::string device() const = 0;
  // Small arrays share segments, which grow from `first` to `most` bytes; all are multiples of
  // `unit`.
  struct SegmentSizes {
    std::uint64_t first = 0;
    std::uint64_t most = 0;
    std::uint64_t unit = 0;
  };
  // For people: "NVIDIA H200". The host has none.
  virtual std::string name() const { return {}; }
  virtual std::uint64_t total_bytes() const { return 0; }  // 0: not known
  virtual SegmentSizes segment_sizes() const = 0;
  // Alignment of arrays of this size, in bytes.
  virtual std::uint64_t alignment_bytes(std::uint64_t size_bytes) const = 0;
  // All zero and really there: using it later cannot fail. Takes about half a second for each GiB.
  // kOutOfMemory; kInternal where the device itself has failed. `kept`: how much of what the host
  // keeps free is to stay so.
  virtual absl::StatusOr<std::unique_ptr<SharedMemory>> create_segment(std::uint64_t size_bytes,
                                                                       wire::ReserveKept kept) = 0;
  // Does a segment take a descriptor of the daemon's?
  virtual bool takes_descriptors() const { return true; }
  // Does work on its memory go on after the call that began it, so that events must order it?
  virtual bool has_events() const { return false; }
  // The process has exited, and its work on the device has ended with it: for a checker of races.
  virtual void process_exited(pid_t /*pid*/) {}
  // For the same: whoever acquires this key comes behind what the caller has seen until now.
  virtual void checker_release(std::uint64_t /*key*/) {}
  // Likewise: what a stream has written to this word is over.
  virtual void checker_saw(const wire::Word& /*word*/) {}
};

}  // namespace memlease::server
