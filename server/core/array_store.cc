#include "server/core/array_store.h"

#include <new>
#include <string_view>

#include "server/core/slot_board.h"
#include "wire/error.h"
#include "wire/session_pages.h"

namespace memlease::server {
namespace {

constexpr std::string_view kHost = "host";
constexpr std::uint32_t kUnwrittenUnits = wire::writer_row_units(wire::kMaxSlots);
constexpr std::uint32_t kChunkUnits = sizeof(wire::SubscriberChunk) / wire::kBoardUnitBytes;

}  // namespace

ArrayStore::ArrayStore(FileTable& files, PageSource& pages, DeviceTable& devices, Quota& quota)
    : files_(files), pages_(pages), devices_(devices), quota_(quota) {}

ArrayStore::DomainPages::DomainPages(FileTable& files, PageSource& source,
                                     const AccessDomain& domain)
    : boards(files, source, {wire::FileKind::kBoard, wire::kBoardBytes, domain, {}, domain.uid}),
      takeovers(files, source,
                {wire::FileKind::kSessionPage, wire::kSessionPageBytes, domain, {}, domain.uid}),
      events(files, source,
             {wire::FileKind::kEvents, wire::kEventPageBytes, domain, {}, domain.uid}) {}

ArrayStore::DomainPages& ArrayStore::pages_of(const AccessDomain& domain) {
  auto& pages = domains_[domain];
  if (pages == nullptr) pages = std::make_unique<DomainPages>(files_, pages_, domain);
  return *pages;
}

// Attributes are in the daemon's own memory, wherever the slots are.
absl::Status ArrayStore::charge(Array& array) {
  const auto charge = [&](Quota& quota, Resource what, std::uint64_t amount) {
    auto charged = quota.charge(array.domain.uid, what, amount);
    if (!charged.ok()) return charged.status();
    array.charges.push_back(*std::move(charged));
    return absl::OkStatus();
  };
  if (auto status = charge(quota_, Resource::kArrays, 1); !status.ok()) return status;
  if (array.rare().attribute_bytes != 0) {
    Quota& host = devices_.at(kHost).quota;
    auto status = charge(host, Resource::kBytes, array.rare().attribute_bytes);
    if (!status.ok()) return status;
  }
  auto slots = charge_slots(array, array.kind->slots);
  if (!slots.ok()) return slots.status();
  array.charges.push_back(*std::move(slots));
  return absl::OkStatus();
}

// Whole places: else tiny slots would take memory that nobody is charged for.
absl::StatusOr<Charge> ArrayStore::charge_slots(const Array& array, std::uint64_t slots) {
  Device& device = devices_.at(array.kind->device);
  const std::uint64_t bytes = device.segments.place_bytes(array.slot_bytes) * slots;
  return device.quota.charge(array.domain.uid, Resource::kBytes, bytes);
}

// A look takes longer than what most attributes need.
absl::Status ArrayStore::room_for(std::uint64_t attribute_bytes) {
  constexpr std::uint64_t kBetweenLooks = std::uint64_t{256} << 10;
  const std::uint64_t bytes = not_looked_for_bytes_ + attribute_bytes;
  const bool looks = bytes >= kBetweenLooks;
  auto status = looks ? pages_.has_room(bytes) : absl::OkStatus();
  if (status.ok()) not_looked_for_bytes_ = looks ? 0 : bytes;
  return status;
}

absl::StatusOr<ArrayStore::Creation> ArrayStore::create(const wire::ArraySpec& spec,
                                                        const AccessDomain& domain,
                                                        SharedAttributes attributes) {
  auto array = std::make_unique<Array>();
  wire::ArrayKind kind = spec;
  kind.max_slots = wire::max_slots_of(spec);
  array->name = spec.name;
  array->kind = kinds_.share(kind);
  array->domain = domain;
  array->slot_bytes = wire::size_bytes_of(spec);
  if (attributes != nullptr) {
    array->make_rare().attribute_bytes = wire::memory_bytes_of(*attributes);
    array->make_rare().attributes = std::move(attributes);
  }
  if (auto status = charge(*array); !status.ok()) return status;
  if (auto status = room_for(array->rare().attribute_bytes); !status.ok()) return status;
  auto growth = place_slots(*array, spec.slots);
  absl::Status status = growth.status();
  if (status.ok() && !*growth) status = place_records(*array);
  if (status.ok() && !*growth) status = place_events(*array);
  if (status.ok() && *growth) {
    growing_.emplace(std::pair{(*growth)->device, (*growth)->number}, std::move(array->charges));
  }
  if (!status.ok() || *growth) {
    destroy(*array);
    if (!status.ok()) return status;
    return **growth;
  }
  array->id = wire::ArrayId{++last_id_};
  init_board(*array->board, array->id, spec.slots, row_ref(*array->takeover_at));
  return array;
}

absl::Status ArrayStore::add_memory(const SegmentPool::Growth& growth,
                                    absl::StatusOr<std::unique_ptr<SharedMemory>> memory) {
  growing_.erase({growth.device, growth.number});
  return devices_.at(growth.device).segments.add(growth, std::move(memory));
}

// Reserves while it keeps the places that it has found: they are not warm memory that the
// reservation may give back.
absl::StatusOr<std::optional<SegmentPool::Growth>> ArrayStore::place_slots(Array& array,
                                                                           std::size_t slots) {
  SegmentPool& segments = devices_.at(array.kind->device).segments;
  while (array.slots.size() < slots) {
    const auto at = segments.place(array.domain, array.slot_bytes);
    if (!at) return segments.reserve(array.domain, array.slot_bytes, slots - array.slots.size());
    segments.backend().checker_release(wire::checker_key_of_places(at->file));
    array.slots.push_back(*at);
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<SegmentPool::Growth>> ArrayStore::add_slot(Array& array) {
  auto bytes = charge_slots(array, 1);
  if (!bytes.ok()) return bytes.status();
  auto growth = place_slots(array, array.slots.size() + 1);
  if (!growth.ok()) return growth.status();
  if (*growth) {
    Charges charges;
    charges.push_back(*std::move(bytes));
    growing_.emplace(std::pair{(*growth)->device, (*growth)->number}, std::move(charges));
    return growth;
  }
  if (array.slots.back().offset > wire::kMaxPlaceOffset) {
    devices_.at(array.kind->device)
        .segments.free(array.domain, array.slots.back(), array.slot_bytes);
    array.slots.pop_back();
    return wire::defect("the added slot's place does not fit into a word of the board");
  }
  array.make_rare().added.push_back({std::move(*bytes), {}});
  ++added_slots_;
  server::add_slot(*array.board, array.layout(), array.slots.back());
  return std::nullopt;
}

void ArrayStore::remove_slot(Array& array) {
  SegmentPool& segments = devices_.at(array.kind->device).segments;
  segments.backend().checker_release(wire::checker_key_of_places(array.slots.back().file));
  segments.free(array.domain, array.slots.back(), array.slot_bytes);
  array.slots.pop_back();
  array.make_rare().added.pop_back();
  --added_slots_;
}

absl::Status ArrayStore::place_records(Array& array) {
  DomainPages& pages = pages_of(array.domain);
  if (pages.arrays == 0) {
    auto unwritten = pages.takeovers.allocate(kUnwrittenUnits);
    if (!unwritten.ok()) return unwritten.status();
    pages.unwritten = *unwritten;
    new (files_.data(*unwritten)) wire::WriterRow;
  }
  ++pages.arrays;
  array.takeover_at = pages.unwritten;
  array.takeover = reinterpret_cast<wire::WriterRow*>(files_.data(pages.unwritten));
  auto board = pages.boards.allocate(wire::board_record_units(array.layout()));
  if (!board.ok()) return board.status();
  array.board_at = *board;
  array.board = new (files_.data(*board)) wire::BoardRecord;
  return absl::OkStatus();
}

absl::Status ArrayStore::make_takeover(Array& array) {
  if (array.own_takeover) return absl::OkStatus();
  PageAllocator& takeovers = pages_of(array.domain).takeovers;
  auto row = takeovers.allocate(wire::writer_row_units(array.layout().most));
  if (!row.ok()) return row.status();
  array.own_takeover = *row;
  new (files_.data(*row)) wire::WriterRow;
  return absl::OkStatus();
}

absl::Status ArrayStore::place_events(Array& array) {
  DeviceBackend& backend = devices_.at(array.kind->device).backend();
  if (!backend.has_events()) return absl::OkStatus();
  const std::uint32_t slots = array.layout().most;
  const auto at = pages_of(array.domain).events.allocate(wire::event_units(slots));
  if (!at.ok()) return at.status();
  EventSet& events = array.make_rare().write_events;
  events = EventSet(backend, files_, *at, slots);
  // A stream may still be about to wait for what was recorded there for an earlier array: counts
  // only grow.
  events.release(files_);
  return absl::OkStatus();
}

void ArrayStore::destroy(Array& array) {
  DomainPages& pages = pages_of(array.domain);
  SegmentPool& segments = devices_.at(array.kind->device).segments;
  for (const wire::FileRange& at : array.slots) {
    segments.free(array.domain, at, array.slot_bytes);
  }
  const wire::SlotLayout layout = array.layout();
  if (array.own_takeover) {
    pages.takeovers.free(*array.own_takeover, wire::writer_row_units(layout.most));
  }
  if (array.takeover != nullptr && --pages.arrays == 0) {
    pages.takeovers.free(pages.unwritten, kUnwrittenUnits);
  }
  if (array.board != nullptr) {
    // A client that comes back late finds another id here.
    array.board->array_id.store(0);
    pages.boards.free(array.board_at, wire::board_record_units(layout));
  }
  if (array.has_rare()) {
    Array::Rare& rare = array.make_rare();
    for (const wire::FileRange& at : rare.chunks) pages.boards.free(at, kChunkUnits);
    if (!rare.write_events.empty()) {
      pages.events.free(rare.write_events.at(), wire::event_units(layout.most));
    }
    added_slots_ -= rare.added.size();
    rare.added.clear();
    rare.chunks.clear();
    rare.write_events = EventSet();
  }
  array.slots.clear();
  array.takeover = nullptr;
  array.board = nullptr;
  array.charges.clear();
}

absl::StatusOr<wire::Word*> ArrayStore::free_entry(Array& array) {
  wire::SubscriberChunk* chunk = &array.board->subscribers;
  for (std::size_t next = 0;; ++next) {
    for (wire::Word& entry : chunk->entries) {
      if (entry.load() == 0) return &entry;
    }
    if (next == array.rare().chunks.size()) break;
    chunk = reinterpret_cast<wire::SubscriberChunk*>(files_.data(array.rare().chunks[next]));
  }
  auto at = pages_of(array.domain).boards.allocate(kChunkUnits);
  if (!at.ok()) return at.status();
  auto* added = new (files_.data(*at)) wire::SubscriberChunk;
  array.make_rare().chunks.push_back(*at);
  chunk->next.store(wire::pack_chunk(*at));
  return &added->entries[0];
}

}  // namespace memlease::server
