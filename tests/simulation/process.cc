#include "tests/simulation/process.h"

#include <algorithm>

#include "fmt/format.h"
#include "tests/simulation/violation.h"

namespace memlease::simulation {

unsigned rights_of(const server::PeerIdentity& peer, const server::AccessDomain& domain) {
  if (peer.uid == 0) return 6;
  unsigned shift = 0;
  const bool in_group = peer.gid == domain.gid || std::ranges::count(peer.groups, domain.gid) != 0;
  if (in_group) shift = 3;
  if (peer.uid == domain.uid) shift = 6;
  const unsigned bits = domain.mode >> shift & 6;
  return bits == 2 ? 0 : bits;  // who cannot read cannot write
}

const Process::Mapped* Process::map(wire::FileId id) {
  const auto known = mapped_.find(wire::to_int(id));
  return known == mapped_.end() ? fetch(id) : &known->second;
}

const Process::Mapped* Process::fetch(wire::FileId id) {
  if (!connected) return nullptr;
  const auto grant = broker_.fetch_file(session, id, true);
  if (!grant.ok()) return nullptr;
  Mapped mapped = memory_.last_export();
  require(mapped.writable == grant->writable, "a descriptor is as writable as the answer says");
  require(mapped.file->size_bytes == grant->size_bytes, "a file is as large as the answer says");
  require(mapped.file->segment == (grant->kind == wire::FileKind::kSegment),
          "a file is of the kind that the answer says");
  const auto [known, is_new] = mapped_.emplace(wire::to_int(id), mapped);
  if (!is_new && known->second.file != mapped.file) {
    violated(fmt::format("session {} has two files by the number {}", wire::to_int(session),
                         wire::to_int(id)));
  }
  return &known->second;
}

std::byte* Process::own_row(wire::RowRef at) {
  const Mapped* const page = map(at.file);
  if (page == nullptr) return nullptr;
  require(page->writable, "a process may write its own rows");
  return page->file->bytes() + at.unit * wire::kRowUnitBytes;
}

OpenedArray* Process::find(wire::ArrayId id) {
  const auto found = arrays.find(wire::to_int(id));
  return found == arrays.end() ? nullptr : &found->second;
}

bool Process::uses_something() const {
  return std::ranges::any_of(arrays, [](const auto& opened) {
    return !opened.second.leases.empty() || opened.second.write;
  });
}

const wire::SubscriberChunk* Process::find_subscriber_chunk(wire::FileRange at,
                                                            std::size_t /*place*/) {
  const Mapped* const page = map(at.file);
  if (page == nullptr) return nullptr;
  return reinterpret_cast<const wire::SubscriberChunk*>(page->file->bytes() + at.offset);
}

const wire::WriterRow* Process::find_writer_row(wire::RowRef at) {
  const Mapped* const page = map(at.file);
  if (page == nullptr) return nullptr;
  return reinterpret_cast<const wire::WriterRow*>(page->file->bytes() +
                                                  at.unit * wire::kRowUnitBytes);
}

const wire::ReaderRow* Process::find_reader_row(wire::RowRef at, std::size_t /*place*/) {
  const Mapped* const page = map(at.file);
  if (page == nullptr) return nullptr;
  return reinterpret_cast<const wire::ReaderRow*>(page->file->bytes() +
                                                  at.unit * wire::kRowUnitBytes);
}

}  // namespace memlease::simulation
