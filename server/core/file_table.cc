#include "server/core/file_table.h"

#include <cassert>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

using wire::ErrorCode;
using wire::FileId;
using wire::FileKind;

absl::StatusOr<FileId> FileTable::add(File&& file) {
  if (last_id_ == wire::kMaxFileId) {
    dispose(std::move(file.memory));
    return wire::make_error(ErrorCode::kOutOfMemory, "all numbers of shared files are used up",
                            "Restart the daemon at your convenience.");
  }
  const FileId id{++last_id_};
  files_.emplace(id, std::move(file));
  return id;
}

void FileTable::remove(FileId id) {
  const auto it = files_.find(id);
  if (it == files_.end()) return;
  dispose(std::move(it->second.memory));
  files_.erase(it);
}

void FileTable::dispose(std::shared_ptr<const void> unused) const {
  if (dispose_) dispose_(std::move(unused));
}

const FileTable::File* FileTable::find(FileId id) const {
  const auto it = files_.find(id);
  return it == files_.end() ? nullptr : &it->second;
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
                                           wire::SessionId session) const {
  const auto found = readable(id, peer);
  if (!found.ok()) return found.status();
  const File* file = *found;
  FileGrant grant;
  grant.kind = file->kind;
  grant.size_bytes = file->memory->size_bytes();
  grant.writable = (file->kind == FileKind::kSegment && may_write(peer, file->domain)) ||
                   (file->kind == FileKind::kExtent && file->owner == session);
  auto fd = file->memory->export_fd(grant.writable);
  if (!fd.ok()) return fd.status();
  grant.fd = std::move(*fd);
  return grant;
}

}  // namespace memlease::server
