#include "server/core/file_table.h"

#include <cassert>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

using wire::ErrorCode;
using wire::FileId;
using wire::FileKind;

absl::StatusOr<FileId> FileTable::add(File&& file, std::optional<uid_t> payer) {
  if (!payer || file.memory->handle() != nullptr) return add_charged(std::move(file), {});
  auto charged = charge(*payer);
  if (!charged.ok()) {
    dispose(std::move(file.memory));
    return charged.status();
  }
  return add_charged(std::move(file), *std::move(charged));
}

absl::StatusOr<FileId> FileTable::add_charged(File&& file, Quota::Charge charge) {
  if (entries_.size() >= numbers_) {
    dispose(std::move(file.memory));
    return wire::make_error(
        ErrorCode::kOutOfMemory,
        fmt::format("all {} numbers of shared files are taken: by files, and by files that have "
                    "gone but that connected processes knew",
                    numbers_),
        "End the processes that have been connected longest (memleasectl sessions), or restart "
        "the daemon.");
  }
  do {
    last_id_ = last_id_ < numbers_ ? last_id_ + 1 : 1;
  } while (entries_.contains(FileId{last_id_}));
  const FileId id{last_id_};
  Entry& entry = entries_[id];
  entry.file = std::move(file);
  entry.charge = std::move(charge);
  return id;
}

void FileTable::remove(FileId id) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.file) return;
  dispose(std::move(it->second.file->memory));
  it->second.file.reset();
  it->second.charge = {};
  if (it->second.pins == 0) entries_.erase(it);
}

void FileTable::pin(FileId id, wire::SessionId session) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.file) return;
  if (pinned_[session].insert(id).second) ++it->second.pins;
}

void FileTable::session_ended(wire::SessionId session) {
  const auto known = pinned_.find(session);
  if (known == pinned_.end()) return;
  for (const FileId id : known->second) {
    const auto it = entries_.find(id);
    if (--it->second.pins == 0 && !it->second.file) entries_.erase(it);
  }
  pinned_.erase(known);
}

void FileTable::dispose(std::shared_ptr<const void> unused) const {
  if (dispose_) dispose_(std::move(unused));
}

const FileTable::File* FileTable::find(FileId id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() || !it->second.file ? nullptr : &*it->second.file;
}

std::byte* FileTable::data(wire::FileRange at) const {
  const File* file = find(at.file);
  assert(file != nullptr && file->memory->data() != nullptr);
  assert(at.offset < file->memory->size_bytes());
  return file->memory->data() + at.offset;
}

absl::StatusOr<const FileTable::File*> FileTable::readable(FileId id,
                                                           const PeerIdentity& peer) const {
  const File* file = find(id);
  if (file == nullptr || !may_read(peer, file->domain)) {
    return wire::make_error(ErrorCode::kNotFound,
                            fmt::format("there is no shared file {} for you", wire::to_int(id)),
                            "Open the array again: it may have been withdrawn.");
  }
  return file;
}

absl::StatusOr<FileGrant> FileTable::grant(FileId id, const PeerIdentity& peer,
                                           wire::SessionId session) {
  const auto found = readable(id, peer);
  if (!found.ok()) return found.status();
  const File* file = *found;
  FileGrant grant;
  grant.kind = file->kind;
  grant.size_bytes = file->memory->size_bytes();
  grant.writable = (file->kind == FileKind::kSegment && may_write(peer, file->domain)) ||
                   (file->kind == FileKind::kSessionPage && file->owner == session);
  auto fd = file->memory->export_fd(grant.writable);
  if (!fd.ok()) return fd.status();
  grant.fd = std::move(*fd);
  pin(id, session);
  return grant;
}

}  // namespace memlease::server
