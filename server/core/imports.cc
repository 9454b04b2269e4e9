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

absl::StatusOr<std::vector<wire::DeviceHandle>> Imports::open_events(Session& session,
                                                                     wire::EventsRef wanted) const {
  const wire::RowRef row = wanted.row;
  if (wanted.added_slot >= wire::kMaxSlots) {
    return wire::make_error(wire::ErrorCode::kInvalidArgument,
                            fmt::format("there is no slot {}", wanted.added_slot),
                            "Slots are numbered from 0 to 63.");
  }
  auto file = files_.readable(row.file, session.peer);
  if (!file.ok()) return file.status();
  const std::uint64_t key = wire::pack_subscriber(row);
  const Session* owner = sessions_.find((*file)->owner);
  const auto events =
      owner == nullptr ? session.imported_events.end() : owner->read_events.find(key);
  if (owner == nullptr || events == owner->read_events.end()) {
    return wire::make_error(
        wire::ErrorCode::kNotFound,
        fmt::format("row {} of file {} has no events", row.unit, to_int(row.file)),
        "Its session has ended.");
  }
  auto pinnable = files_.may_pin(row.file, session.id, session.peer.uid);
  if (!pinnable.ok()) return pinnable;
  EventSet& set = *events->second;
  std::vector<wire::DeviceHandle> handles;
  if (wanted.added_slot == 0) {
    handles = set.handles();
  } else {
    if (auto status = set.add_for_life(wanted.added_slot); !status.ok()) return status;
    if (const auto handle = set.handle(wanted.added_slot)) handles.push_back(*handle);
  }
  session.imported_events[wire::pack_events(wanted)] = events->second;
  files_.pin(row.file, session.id, session.peer.uid);
  return handles;
}

void Imports::close_memory(Session& session, wire::FileId id) const {
  const auto imported = session.imported_memory.find(id);
  if (imported == session.imported_memory.end()) return;
  files_.dispose(std::move(imported->second));
  session.imported_memory.erase(imported);
}

void Imports::close_events(Session& session, wire::EventsRef closed) {
  session.imported_events.erase(wire::pack_events(closed));
}

void Imports::close_all(Session& session) const {
  for (auto& [file, memory] : session.imported_memory) files_.dispose(std::move(memory));
  session.imported_memory.clear();
  session.imported_events.clear();
}

}  // namespace memlease::server
