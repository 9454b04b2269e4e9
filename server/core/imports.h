// What sessions have open by handle: memory of devices, which other than by descriptors the kernel
// does not count. None goes before every importer has said that it has closed it, or has exited.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/file_table.h"
#include "server/core/session.h"
#include "wire/ids.h"

namespace memlease::server {

class Imports {
 public:
  explicit Imports(FileTable& files) : files_(files) {}

  struct Memory {
    wire::DeviceHandle handle{};
    std::uint64_t size_bytes = 0;
  };
  // Pins the file, if FileTable::may_pin(). kNotFound for what the session
  // may not read, kUnsupported for what has a descriptor.
  absl::StatusOr<Memory> open_memory(Session& session, wire::FileId id) const;
  void close_memory(Session& session, wire::FileId id) const;
  // The session has ended.
  void close_all(Session& session) const;

 private:
  FileTable& files_;
};

}  // namespace memlease::server
