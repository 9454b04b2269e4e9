// Port to a kind of device: its memory, and the events that order work on it. Implemented by
// server/device/{memfd,cuda}_device_backend, in tests by FakeMemory and FakeGpu; called by
// SegmentPool and EventSet, under the daemon's lock.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/shared_memory.h"
#include "wire/ids.h"

namespace memlease::server {

// An event of a device that other processes open: what they record in it others wait for. Destroy
// it when nobody has it open any more.
class SharedEvent {
 public:
  virtual ~SharedEvent() = default;
  virtual const wire::DeviceHandle& handle() const = 0;
  // Of its last record; true if it has none. An event that cannot be asked is not complete.
  virtual bool complete() const = 0;
  // For those who wait for a record whose process has died. An error is not worth more than a look
  // at the log: those waits end with their processes.
  virtual absl::Status re_record() = 0;
};

// Takes memory and events that nobody needs any more, to destroy them: giving gigabytes back takes
// long, and closing what is on a device may wait for that. So the daemon does it where nobody waits
// for the core.
using Disposal = std::function<void(std::shared_ptr<const void>)>;

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
  // All zero and really there: using it later cannot fail. kOutOfMemory.
  virtual absl::StatusOr<std::unique_ptr<SharedMemory>> create_segment(
      std::uint64_t size_bytes) = 0;
  // Does a segment take a descriptor of the daemon's?
  virtual bool takes_descriptors() const { return true; }
  // Does work on its memory go on after the call that began it, so that events must order it? Only
  // then are there any.
  virtual bool has_events() const { return false; }
  // The process has exited, and its work on the device has ended with it: for a checker of races.
  virtual void process_exited(pid_t /*pid*/) {}
  // For the same: whoever acquires this key comes behind what the caller has seen until now.
  virtual void checker_release(std::uint64_t /*key*/) {}
  // kOutOfMemory: it gives none, now; other errors: it has failed.
  virtual absl::StatusOr<std::unique_ptr<SharedEvent>> create_event();
};

}  // namespace memlease::server
