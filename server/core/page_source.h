// Port to the memory of the slot protocol's pages. Implemented by MemfdDeviceBackend,
// in tests by FakeMemory; called by PageAllocator and NameBoard, under the daemon's lock: pages are
// small, so that making some does not keep others long. Need not be thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/shared_memory.h"
#include "wire/memory_ceiling.h"

namespace memlease::server {

// Pages of the slot protocol.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // All zero and really there, mapped in the daemon: for writing if it is the daemon's page, else
  // for reading. kOutOfMemory. `kept`: how much of what is kept free is to stay so.
  virtual absl::StatusOr<std::unique_ptr<SharedMemory>> create_pages(std::uint64_t size_bytes,
                                                                     bool daemon_writes,
                                                                     wire::ReserveKept kept) = 0;
  // For so much of the daemon's own memory. kOutOfMemory.
  virtual absl::Status has_room(std::uint64_t bytes) = 0;
};

}  // namespace memlease::server
