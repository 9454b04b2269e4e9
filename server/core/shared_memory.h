// Ports to the memory that the daemon owns. Implemented by server/device/memfd_device_backend, in
// tests by FakeMemory; called by SegmentPool and PageAllocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/wire/unique_fd.h"

namespace memlease::server {

// One allocation from the operating system or a driver: the unit of sharing between processes.
// Destroying it gives the memory back as soon as no client maps it any more.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::uint64_t size_bytes() const = 0;
  // A new descriptor; one that is not writable cannot be made so by another uid.
  virtual absl::StatusOr<wire::UniqueFd> export_fd(bool writable) const = 0;
  // Where the daemon sees it; nullptr for segments, whose bytes are none of its business.
  virtual std::byte* data() = 0;
};

// A kind of device whose memory arrays stand in.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  // The word on the wire: "host", or a GPU's UUID.
  virtual std::string device() const = 0;
  // Alignment of arrays of this size, in bytes.
  virtual std::uint64_t alignment_bytes(std::uint64_t size_bytes) const = 0;
  // All zero and really there: using it later cannot fail. kOutOfMemory.
  virtual absl::StatusOr<std::unique_ptr<SharedMemory>> create_segment(
      std::uint64_t size_bytes) = 0;
};

// Pages of the slot protocol.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // All zero, mapped in the daemon: for writing if it is the daemon's page, else for reading.
  virtual absl::StatusOr<std::unique_ptr<SharedMemory>> create_pages(std::uint64_t size_bytes,
                                                                     bool daemon_writes) = 0;
};

}  // namespace memlease::server
