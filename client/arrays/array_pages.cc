#include "client/arrays/array_pages.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "wire/array_spec.h"
#include "wire/error.h"

namespace memlease::internal {

using wire::defect;
using wire::FileKind;
using wire::FileRange;
using wire::RowRef;

namespace {

// Session pages are mapped as a whole; does a row fit at this place?
bool fits(const Mapping& mapping, RowRef at, std::uint32_t units) {
  return mapping.contains(at.unit * wire::kRowUnitBytes, units * wire::kRowUnitBytes,
                          wire::kRowUnitBytes);
}

// A device's are no files.
void add_slots(const wire::ArrayKind& kind, const ArrayFacts& facts, Access access,
               std::vector<WantedFile>& files) {
  if (!wire::is_host(kind)) return;
  for (const FileRange& at : facts.slots) files.push_back({at.file, access});
}

}  // namespace

Brought bring_to_open(const OpenAnswer& answer, MappingCache& mappings, InterruptCheck interrupt) {
  std::vector<WantedFile> files = {{answer.board_record.file}};
  if (answer.subscribed) {
    files.push_back({answer.subscribed->row.file});
    files.push_back({answer.writer.file});
  }
  add_slots(answer.spec, answer, Access::kRead, files);
  FilesById there;
  if (answer.files != nullptr) there.swap(*answer.files);
  return mappings.bring(files, interrupt, std::move(there));
}

absl::StatusOr<MappedRecord> map_record(const OpenAnswer& answer, MappingCache& mappings,
                                        InterruptCheck interrupt) {
  const wire::ArraySpec& spec = answer.spec;
  if (answer.slots.size() != spec.slots || spec.slots == 0 || spec.slots > wire::kMaxSlots ||
      spec.max_slots < spec.slots || spec.max_slots > wire::kMaxSlots) {
    return defect("the array has another number of slots than places");
  }
  auto file = mappings.get(answer.board_record.file, FileKind::kBoard, interrupt);
  if (!file.ok()) return file.status();
  const std::uint64_t offset = answer.board_record.offset;
  const std::uint64_t record_bytes =
      wire::board_record_units({spec.slots, spec.max_slots}) * wire::kBoardUnitBytes;
  if (!(*file)->contains(offset, record_bytes, wire::kBoardUnitBytes)) {
    return defect("the array's record lies outside of the board");
  }
  const auto* board = reinterpret_cast<const wire::BoardRecord*>((*file)->data() + offset);
  return MappedRecord{board, *std::move(file)};
}

ArrayPages::ArrayPages(const KnownArray& known, MappedRecord record, MappingCache& mappings)
    : known_(known), board_(*record.board), mappings_(mappings) {
  keep(known.board_record.file, std::move(record.file));
}

Brought ArrayPages::bring_to_read(RowRef own, InterruptCheck interrupt) {
  std::vector<WantedFile> files = {{own.file}};
  add_slots(*known_.kind, known_, Access::kRead, files);
  return mappings_.bring(files, interrupt);
}

Brought ArrayPages::bring_to_write(RowRef own, RowRef from, InterruptCheck interrupt) {
  std::vector<WantedFile> files = {{own.file}};
  if (from.file != wire::FileId{0}) files.push_back({from.file});
  for (const Access access : {Access::kRead, Access::kWrite}) {
    add_slots(*known_.kind, known_, access, files);
  }
  return mappings_.bring(files, interrupt);
}

// What cannot be had now is asked for when it is used, and whoever uses it is told why.
absl::Status ArrayPages::map_rows(const OpenAnswer& answer, InterruptCheck interrupt) {
  if (!answer.subscribed) return absl::OkStatus();
  const auto unless_interrupted = [](const absl::Status& status) {
    return wire::code_of(status) == wire::ErrorCode::kInterrupted ? status : absl::OkStatus();
  };
  auto status = unless_interrupted(
      own_row(answer.subscribed->row, wire::reader_row_units(known_.layout().most), interrupt)
          .status());
  if (!status.ok()) return status;
  return unless_interrupted(map_writer_row(answer.writer, interrupt).status());
}

absl::StatusOr<std::byte*> ArrayPages::own_row(RowRef at, std::uint32_t units,
                                               InterruptCheck interrupt) {
  auto mapping = mappings_.get(at.file, FileKind::kSessionPage, interrupt);
  if (!mapping.ok()) return mapping.status();
  if (!(*mapping)->writable() || !fits(**mapping, at, units) ||
      at.unit * wire::kRowUnitBytes < wire::kSessionCountsBytes) {
    return defect("the row given to this process is not its own");
  }
  std::byte* const page = (*mapping)->data();
  keep(at.file, std::move(*mapping));
  counts_.store(reinterpret_cast<wire::SessionCounts*>(page), std::memory_order_release);
  return page + at.unit * wire::kRowUnitBytes;
}

// nullptr: it is not mapped. Few are.
std::shared_ptr<Mapping>* ArrayPages::find_mapping(wire::FileId file) {
  const auto known = std::ranges::find(mapped_, file, [](const auto& one) { return one.first; });
  return known == mapped_.end() ? nullptr : &known->second;
}

void ArrayPages::keep(wire::FileId file, std::shared_ptr<Mapping> mapping) {
  const wire::MutexLock lock(mutex_);
  if (auto* const known = find_mapping(file)) {
    known->swap(mapping);  // what stood there ends without the lock
  } else {
    mapped_.emplace_back(file, std::move(mapping));
  }
}

// ---- RowResolver.

const wire::WriterRow* ArrayPages::known_writer(RowRef at) {
  const auto known = std::find_if(writers_.begin(), writers_.end(),
                                  [&](const MappedWriter& writer) { return writer.at == at; });
  if (known == writers_.end()) return nullptr;
  std::rotate(writers_.begin(), known, known + 1);
  rows_.note_writer(at, writers_.front().row);
  return writers_.front().row;
}

const wire::WriterRow* ArrayPages::find_writer_row(RowRef at) {
  const wire::MutexLock lock(mutex_);
  return known_writer(at);
}

absl::StatusOr<const wire::WriterRow*> ArrayPages::map_writer_row(RowRef at,
                                                                  InterruptCheck interrupt) {
  {
    const wire::MutexLock lock(mutex_);
    if (const wire::WriterRow* known = known_writer(at)) return known;
  }
  auto mapping = mappings_.get(at.file, FileKind::kSessionPage, interrupt);
  if (!mapping.ok()) return mapping.status();
  if (!fits(**mapping, at, wire::writer_row_units(known_.layout().most))) {
    return defect("a writer's row lies outside of its page");
  }
  const auto* row =
      reinterpret_cast<const wire::WriterRow*>((*mapping)->data() + at.unit * wire::kRowUnitBytes);
  MappedWriter oldest;  // whose page goes without the lock
  const wire::MutexLock lock(mutex_);
  if (const wire::WriterRow* known = known_writer(at)) return known;
  if (writers_.size() == kMostWriters) {
    oldest = std::move(writers_.back());
    writers_.pop_back();
  }
  writers_.insert(writers_.begin(), {at, row, std::move(*mapping)});
  rows_.note_writer(at, row);
  return row;
}

const wire::ReaderRow* ArrayPages::find_reader_row(RowRef at, std::size_t place) {
  if (readers_ == nullptr) return nullptr;
  const auto known = readers_->find(wire::pack_subscriber(at));
  if (known == readers_->end()) return nullptr;
  rows_.note_reader(at, place, known->second.row);
  return known->second.row;
}

absl::StatusOr<bool> ArrayPages::map_reader_rows(InterruptCheck interrupt) {
  Readers mapped;
  absl::Status status;
  const wire::SubscriberChunk* chunk = &board_.subscribers;
  while (chunk != nullptr && status.ok()) {
    for (const wire::Word& entry : chunk->entries) {
      const std::uint64_t key = entry.load();
      if (key == 0 || (readers_ != nullptr && readers_->contains(key))) continue;
      const RowRef at = wire::subscriber_row_of(key);
      auto mapping = mappings_.get(at.file, FileKind::kSessionPage, interrupt);
      if (wire::code_of(mapping.status()) == wire::ErrorCode::kNotFound) continue;
      status = mapping.status();
      if (!status.ok()) break;
      if (!fits(**mapping, at, wire::reader_row_units(known_.layout().most))) continue;
      const auto* row = reinterpret_cast<const wire::ReaderRow*>((*mapping)->data() +
                                                                 at.unit * wire::kRowUnitBytes);
      mapped.emplace(key, MappedReader{row, std::move(*mapping)});
    }
    const std::uint64_t next = status.ok() ? chunk->next.load() : 0;
    if (next == 0) break;
    const FileRange at = wire::unpack_chunk(next);
    status = map_listing(at.file, interrupt).status();
    chunk = chunk_at(at);
  }
  const bool any = !mapped.empty();
  if (any) {
    if (readers_ == nullptr) readers_ = std::make_unique<Readers>();
    forget_dead_readers();
    readers_->merge(mapped);
  }
  if (!status.ok()) return status;
  return any;
}

// A new subscriber is the occasion to unmap the pages of those who are gone.
void ArrayPages::forget_dead_readers() {
  Readers alive;
  const wire::SubscriberChunk* chunk = &board_.subscribers;
  while (chunk != nullptr) {
    for (const wire::Word& entry : chunk->entries) {
      if (const auto known = readers_->find(entry.load()); known != readers_->end()) {
        alive.insert(*known);
      }
    }
    const std::uint64_t next = chunk->next.load();
    chunk = next == 0 ? nullptr : chunk_at(wire::unpack_chunk(next));
  }
  *readers_ = std::move(alive);
  rows_.forget_readers();
}

// Of subscribers: a page of the board.
absl::StatusOr<std::shared_ptr<Mapping>> ArrayPages::map_listing(wire::FileId file,
                                                                 InterruptCheck interrupt) {
  {
    const wire::MutexLock lock(mutex_);
    if (const auto* const known = find_mapping(file)) return *known;
  }
  auto board = mappings_.get(file, FileKind::kBoard, interrupt);
  if (!board.ok()) return board.status();
  const wire::MutexLock lock(mutex_);
  if (const auto* const known = find_mapping(file)) return *known;
  return mapped_.emplace_back(file, *std::move(board)).second;
}

const wire::SubscriberChunk* ArrayPages::chunk_at(FileRange at) {
  std::shared_ptr<Mapping> board;
  {
    const wire::MutexLock lock(mutex_);
    const auto* const known = find_mapping(at.file);
    if (known == nullptr) return nullptr;
    board = *known;
  }
  if (!board->contains(at.offset, sizeof(wire::SubscriberChunk), wire::kBoardUnitBytes)) {
    return nullptr;
  }
  return reinterpret_cast<const wire::SubscriberChunk*>(board->data() + at.offset);
}

// Its page stays mapped as long as this lives.
const wire::SubscriberChunk* ArrayPages::find_subscriber_chunk(FileRange at, std::size_t place) {
  const wire::SubscriberChunk* const chunk = chunk_at(at);
  if (chunk != nullptr) rows_.note_chunk(at, place, chunk);
  return chunk;
}

}  // namespace memlease::internal
