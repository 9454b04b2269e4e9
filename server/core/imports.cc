#include "server/core/imports.h"

#include <utility>

#include "fmt/format.h"
#include "wire/board.h"
#include "wire/error.h"

namespace memlease::server {

absl::StatusOr<Imports::Memory> Imports::open_memory(Session& session, wire::FileId id) const {
  auto file = files_.readable(id, session.peer);
  if (!file.ok()) return file.status();
  const wire::DeviceHandle* handle = (*file)->memory->handle();
  if (handle == nullptr) {
    return wire::make_error(wire::ErrorCode::kUnsupported,
                            fmt::format("shared file {} has no handle", to_int(id)),
                            "Fetch its descriptor over the attach channel.");
  }
  if (auto status = files_.may_pin(id, session.id, session.peer.uid); !status.ok()) return status;
  session.imported_memory[id] = (*file)->memory;
  files_.pin(id, session.id, session.peer.uid);
  return Memory{*handle, (*file)->memory->size_bytes()};
}

void Imports::close_memory(Session& session, wire::FileId id) const {
  const auto imported = session.imported_memory.find(id);
  if (imported == session.imported_memory.end()) return;
  files_.dispose(session.peer.uid, std::move(imported->second));
  session.imported_memory.erase(imported);
}

void Imports::close_all(Session& session) const {
  for (auto& [file, memory] : session.imported_memory)
    files_.dispose(session.peer.uid, std::move(memory));
  session.imported_memory.clear();
}

}  // namespace memlease::server
