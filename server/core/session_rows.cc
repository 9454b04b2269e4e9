#include "server/core/session_rows.h"

#include <memory>
#include <vector>

#include "server/core/slot_board.h"

namespace memlease::server {

using wire::FileRange;

absl::Status SessionRows::take(Session& session, Membership& membership, const Array& array,
                               RowKind kind, DeviceBackend& device) {
  auto& [row_class, free] = *session.free_rows.try_emplace(row_class_of(array)).first;
  std::vector<FileRange>& rows = free.of(kind);
  if (rows.empty()) {
    const auto made = make(session, array, kind, device);
    if (!made.ok()) return made.status();
    rows.push_back(*made);
  }
  (kind == RowKind::kReader ? membership.reader_row : membership.writer_row) = rows.back();
  rows.pop_back();
  membership.row_class = &row_class;
  return absl::OkStatus();
}

absl::StatusOr<FileRange> SessionRows::make(Session& session, const Array& array, RowKind kind,
                                            DeviceBackend& device) {
  const std::uint32_t slots = array.layout().most;
  auto& pages = session.pages[array.domain];
  if (pages == nullptr) {
    pages = std::make_unique<PageAllocator>(
        files_, pages_,
        PageAllocator::Kind{wire::FileKind::kSessionPage, wire::kSessionPageBytes, array.domain,
                            session.id, session.peer.uid, wire::kSessionCountsBytes});
  }
  if (kind == RowKind::kWriter) return pages->allocate(wire::writer_row_units(slots));
  if (!device.has_events()) return pages->allocate(wire::reader_row_units(slots));
  const auto row = pages->allocate(wire::reader_row_units_with_events(slots));
  if (!row.ok()) return row;
  const FileRange events{row->file, row->offset + wire::events_offset(slots)};
  session.read_events.emplace(wire::pack_subscriber(row_ref(*row)),
                              EventSet(device, files_, events, slots));
  return row;
}

bool SessionRows::may_waste(const Session& session, const AccessDomain& domain) {
  constexpr std::size_t kFewPages = 2;
  const auto pages = session.pages.find(domain);
  return pages == session.pages.end() || pages->second->page_count() < kFewPages;
}

EventSet SessionRows::read_events_of(const Session& session, const Membership& membership) {
  if (!membership.reader_row) return {};
  const auto known =
      session.read_events.find(wire::pack_subscriber(row_ref(*membership.reader_row)));
  return known == session.read_events.end() ? EventSet() : known->second;
}

void SessionRows::give_back(Session& session, Membership& membership) {
  if (membership.row_class == nullptr) return;
  FreeRows& free = session.free_rows.at(*membership.row_class);
  const auto give = [&](RowPlace& row, RowKind kind) {
    if (row) free.of(kind).push_back(*row);
    row.reset();
  };
  give(membership.reader_row, RowKind::kReader);
  give(membership.writer_row, RowKind::kWriter);
}

const wire::ReaderRow& SessionRows::reader(FileRange at) const {
  return *reinterpret_cast<const wire::ReaderRow*>(files_.data(at));
}

const wire::WriterRow& SessionRows::writer(FileRange at) const {
  return *reinterpret_cast<const wire::WriterRow*>(files_.data(at));
}

bool SessionRows::is_writing(const Membership& membership) const {
  return membership.writer_row && server::is_writing(writer(*membership.writer_row));
}

std::uint64_t SessionRows::held_slots(const Membership& membership, const Array& array) const {
  static_assert(wire::kMaxSlots <= 64);
  std::uint64_t held = 0;
  if (!membership.reader_row || membership.entry == nullptr) return held;
  const wire::ReaderRow& row = reader(*membership.reader_row);
  for (std::size_t s = 0; s < array.slots.size(); ++s) {
    if (row.holds()[s].load() != 0) held |= std::uint64_t{1} << s;
  }
  return held;
}

bool SessionRows::in_use(const Membership& membership, const Array& array) const {
  const bool holds = membership.reader_row && membership.entry != nullptr &&
                     holds_any(reader(*membership.reader_row), array.layout().most);
  return holds || is_writing(membership);
}

}  // namespace memlease::server
