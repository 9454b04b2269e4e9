// All shared files of the daemon by id, with who may have them. Not thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/core/access.h"
#include "server/core/device_backend.h"
#include "server/core/session_host.h"
#include "server/core/shared_memory.h"
#include "wire/ids.h"

namespace memlease::server {

class FileTable {
 public:
  struct File {
    // Shared with the sessions that import it by its handle: they may have it open when it goes.
    std::shared_ptr<SharedMemory> memory;
    wire::FileKind kind = wire::FileKind::kSegment;
    AccessDomain domain;
    wire::SessionId owner{0};  // of a session extent: the only one who may write it
  };

  // By default what is disposed of is destroyed at once.
  explicit FileTable(Disposal dispose = {}) : dispose_(std::move(dispose)) {}

  // Ids are never used again; kOutOfMemory once all are used up, and the memory is disposed of.
  absl::StatusOr<wire::FileId> add(File&& file);
  void remove(wire::FileId id);
  // Memory that a session has closed, or events.
  void dispose(std::shared_ptr<const void> unused) const;
  // nullptr if there is no such file.
  const File* find(wire::FileId id) const;
  // Where the daemon sees the range; the file must exist and be a page file.
  std::byte* data(wire::FileRange at) const;

  // A segment is writable with write access, an extent for its owner alone, a board never. A file
  // that the peer may not read is as unknown as one that does not exist.
  absl::StatusOr<FileGrant> grant(wire::FileId id, const PeerIdentity& peer,
                                  wire::SessionId session) const;
  // The file, for whoever may have it. kNotFound.
  absl::StatusOr<const File*> readable(wire::FileId id, const PeerIdentity& peer) const;

 private:
  const Disposal dispose_;
  std::uint32_t last_id_ = 0;
  absl::flat_hash_map<wire::FileId, File> files_;
};

}  // namespace memlease::server
