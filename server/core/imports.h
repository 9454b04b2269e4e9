// What sessions have open by handle: memory and events of devices, which other than by descriptors
// the kernel does not count. Neither goes before every importer has said that it has closed it, or
// has exited. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/file_table.h"
#include "server/core/session.h"
#include "server/core/session_table.h"
#include "wire/ids.h"

namespace memlease::server {

class Imports {
 public:
  Imports(FileTable& files, const SessionTable& sessions) : files_(files), sessions_(sessions) {}

  struct Memory {
    wire::DeviceHandle handle{};
    std::uint64_t size_bytes = 0;
  };
  // Pins the file, if FileTable::may_pin(); so does open_events(). kNotFound for what the session
  // may not read, kUnsupported for what has a descriptor.
  absl::StatusOr<Memory> open_memory(Session& session, wire::FileId id) const;
  void close_memory(Session& session, wire::FileId id) const;
  // The events of another session's reader row, one per slot, or that of an added slot; none if it
  // does without. Pins the file of that row. kNotFound: that session has ended.
  absl::StatusOr<std::vector<wire::DeviceHandle>> open_events(Session& session,
                                                              wire::EventsRef wanted) const;
  static void close_events(Session& session, wire::EventsRef closed);
  // The session has ended.
  void close_all(Session& session) const;

 private:
  FileTable& files_;
  const SessionTable& sessions_;
};

}  // namespace memlease::server
