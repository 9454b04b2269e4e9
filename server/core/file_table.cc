#include "server/core/file_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

using wire::ErrorCode;
using wire::FileId;
using wire::FileKind;

namespace {

template <typename Amount>
void book(bool begins, Amount& sum, Amount amount) {
  begins ? sum += amount : sum -= amount;
}

template <typename Amount>
void book(bool begins, std::map<uid_t, Amount>& sums, uid_t uid, Amount amount) {
  Amount& sum = sums[uid];
  book(begins, sum, amount);
  if (sum == 0) sums.erase(uid);
}

}  // namespace

absl::StatusOr<FileId> FileTable::add(File&& file, std::optional<uid_t> payer) {
  const uid_t owner = file.domain.uid;
  if (!payer) return add_charged(std::move(file), owner, {});
  const bool has_descriptor = file.memory->handle() == nullptr;
  const std::uint64_t page_bytes = file.kind == FileKind::kSegment ? 0 : file.memory->size_bytes();
  auto descriptor =
      quota_.charge(*payer, Resource::kDescriptors, has_descriptor ? kDescriptorsOfFile : 0);
  auto pages = quota_.charge(*payer, Resource::kPageBytes, page_bytes);
  for (const absl::Status& status : {descriptor.status(), pages.status()}) {
    if (status.ok()) continue;
    dispose(*payer, std::move(file.memory));
    return status;
  }
  return add_charged(std::move(file), *payer, *std::move(descriptor), *std::move(pages));
}

absl::StatusOr<FileId> FileTable::add_charged(File&& file, uid_t payer, Charge descriptor,
                                              Charge pages) {
  if (entries_.size() >= numbers_) {
    dispose(payer, std::move(file.memory));
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
  entries_[id].file =
      std::make_unique<Living>(std::move(file), payer, std::move(descriptor), std::move(pages));
  return id;
}

void FileTable::remove(FileId id, Charge bytes, Going* going) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.file) return;
  std::unique_ptr<Living> gone = std::move(it->second.file);
  if (it->second.pins == 0) entries_.erase(it);
  if (leaves_to_clients_) return dispose(gone->payer, std::move(gone->file.memory));
  const auto leaving = std::make_shared<Leaving>(*this, std::move(gone), std::move(bytes), going);
  leaving_.emplace(leaving.get(), leaving);
  dispose_(leaving->payer_, leaving);
}

std::size_t FileTable::going_of(uid_t uid) const {
  const auto found = going_of_.find(quota_.account(uid).uid());
  return found == going_of_.end() ? 0 : found->second;
}

bool FileTable::keeps_some_of(uid_t uid) const {
  return kept_of_.contains(quota_.account(uid).uid());
}

FileTable::Leaving::Leaving(FileTable& table, std::unique_ptr<Living> file, Charge bytes,
                            Going* going)
    : table_(table),
      payer_(table.quota_.account(file->payer).uid()),
      size_bytes_(file->file.memory->size_bytes()),
      file_(std::move(file)),
      bytes_(std::move(bytes)),
      going_(going) {
  note_way(true);
}

void FileTable::Leaving::note_way(bool begins) {
  book(begins, table_.going_, std::size_t{1});
  book(begins, table_.going_of_, payer_, std::size_t{1});
  if (going_ == nullptr) return;
  book(begins, going_->bytes, size_bytes_);
  book(begins, going_->bytes_of, payer_, size_bytes_);
}

void FileTable::Leaving::note_kept(bool begins) {
  book(begins, table_.kept_of_, payer_, std::size_t{1});
  if (going_ != nullptr) book(begins, going_->kept_bytes, size_bytes_);
}

bool FileTable::Leaving::go() {
  std::shared_ptr<SharedMemory>& memory = file_->file.memory;
  if (memory->is_lent()) return false;
  const Elsewhere elsewhere = memory->elsewhere();
  if (elsewhere == Elsewhere::kWriter) return false;
  const bool is_revoked = elsewhere == Elsewhere::kNoWriter && file_->may_be_revoked;
  if (is_revoked && !memory->revoke()) return false;
  memory.reset();
  return true;
}

void FileTable::Leaving::settle(bool has_gone) {
  if (is_kept_ && !has_gone) return;
  is_kept_ ? note_kept(false) : note_way(false);
  is_kept_ = !has_gone;
  if (is_kept_) return note_kept(true);
  drop_charges();
  table_.leaving_.erase(this);
}

void FileTable::Leaving::drop_charges() {
  file_->descriptor = {};
  file_->writer = {};
  file_->pages = {};
  bytes_ = {};
}

void FileTable::leave_to_clients() {
  leaves_to_clients_ = true;
  for (auto& [key, leaving] : leaving_) leaving->drop_charges();
  leaving_.clear();
}

void FileTable::pin(FileId id, wire::SessionId session, uid_t uid) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || !it->second.file) return;
  const auto [known, is_first] = pinned_.try_emplace(session);
  Known& of_session = known->second;
  if (is_first) of_session.charge = quota_.account(uid).empty_charge(Resource::kFileNumbers);
  if (!of_session.numbers.insert(id).second) return;
  of_session.charge.add_anyway(1);
  ++it->second.pins;
}

bool FileTable::knows(wire::SessionId session, FileId id) const {
  const auto known = pinned_.find(session);
  return known != pinned_.end() && known->second.numbers.contains(id);
}

absl::Status FileTable::may_pin(FileId id, wire::SessionId session, uid_t uid) const {
  return knows(session, id) ? absl::OkStatus() : may_pin(uid);
}

void FileTable::session_ended(wire::SessionId session) {
  const auto known = pinned_.find(session);
  if (known == pinned_.end()) return;
  for (const FileId id : known->second.numbers) {
    const auto it = entries_.find(id);
    if (--it->second.pins == 0 && !it->second.file) entries_.erase(it);
  }
  pinned_.erase(known);
}

void FileTable::dispose(uid_t uid, std::shared_ptr<const void> unused) {
  dispose_(quota_.account(uid).uid(), std::make_shared<UnusedMemory>(std::move(unused)));
}

const FileTable::File* FileTable::find(FileId id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() || !it->second.file ? nullptr : &it->second.file->file;
}

std::byte* FileTable::data(wire::FileRange at) const {
  const File* file = find(at.file);
  assert(file != nullptr && file->memory->data() != nullptr);
  assert(at.offset < file->memory->size_bytes());
  return file->memory->data() + at.offset;
}

void FileTable::change(wire::FileRange at, absl::FunctionRef<void(std::byte*)> change) const {
  find(at.file)->memory->change([&] { change(data(at)); });
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

// Before anybody has it, who could make that wait (SharedMemory::export_fd).
absl::Status FileTable::make_writer(Living& living) {
  if (living.has_writer || living.file.kind == FileKind::kBoard) return absl::OkStatus();
  auto descriptor = quota_.charge(living.payer, Resource::kDescriptors, 1);
  if (!descriptor.ok()) return descriptor.status();
  const auto writer = living.file.memory->export_fd(true);
  if (!writer.ok()) return writer.status();
  living.has_writer = true;
  living.writer = *std::move(descriptor);
  return absl::OkStatus();
}

absl::StatusOr<FileGrant> FileTable::grant(FileId id, const PeerIdentity& peer,
                                           wire::SessionId session, bool writable) {
  const auto found = readable(id, peer);
  if (!found.ok()) return found.status();
  const File* file = *found;
  if (auto status = may_pin(id, session, peer.uid); !status.ok()) return status;
  FileGrant grant;
  grant.kind = file->kind;
  grant.size_bytes = file->memory->size_bytes();
  const bool of_array =
      (file->kind == FileKind::kSegment && writable) || file->kind == FileKind::kEvents;
  grant.writable = (of_array && may_write(peer, file->domain)) ||
                   (file->kind == FileKind::kSessionPage && file->owner == session);
  if (auto status = make_writer(*entries_.at(id).file); !status.ok()) return status;
  auto fd = file->memory->export_fd(grant.writable);
  if (!fd.ok()) return fd.status();
  grant.fd = *std::move(fd);
  pin(id, session, peer.uid);
  return grant;
}

}  // namespace memlease::server
