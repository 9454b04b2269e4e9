// Arrays: their boards say what the broker means, their places are theirs alone, and what was
// published stands.
#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "server/core/report.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/violation.h"

namespace memlease::simulation {
namespace {

using server::Array;
using server::Session;

void check_members(World& world, const Array& array) {
  std::vector<wire::Word*> mine;
  for (const wire::SessionId id : array.members) {
    require(std::ranges::count(array.members, id) == 1, "a member is one once");
    const Session* const session = world.broker.sessions().find(id);
    require(session != nullptr, "a member is a session that there is");
    const auto membership = session->memberships.find(array.id);
    require(membership != session->memberships.end(), "a member has the array open");
    if (membership->second.entry == nullptr) continue;
    require(static_cast<bool>(membership->second.reader_row), "a subscriber has a row");
    require(membership->second.entry->load() ==
                wire::pack_subscriber(server::row_ref(*membership->second.reader_row)),
            "the board names each subscriber's row");
    mine.push_back(membership->second.entry);
  }
  const auto count = static_cast<std::uint32_t>(mine.size());
  require(array.board->subscribed.load() == count, "the board counts its subscribers");
  std::ranges::sort(mine);
  require(std::ranges::adjacent_find(mine) == mine.end(), "each subscriber has his own entry");
  // There are fewer processes than a chunk has entries.
  const auto& entries = array.board->subscribers.entries;
  const auto listed = std::ranges::count_if(entries, [](const auto& e) { return e.load() != 0; });
  require(listed == count, "the board names nobody who has left");
  const auto behind = std::span(entries).subspan(array.board->used_entries.load());
  require(std::ranges::all_of(behind, [](const auto& e) { return e.load() == 0; }),
          "the board says how many entries have been used");
}

void check_ownership(World& world, const Array& array) {
  const std::uint64_t word = array.board->writer.load();
  const auto flag = [word](std::uint64_t bits) { return (word & bits) != 0; };
  require(flag(wire::kWriterVacant) == (array.writer == wire::SessionId{0}),
          "the board says whether there is a writer");
  require(array.withdrawn || flag(wire::kWriterMoving) == (array.pending != nullptr),
          "the board says whether ownership moves");
  require(flag(wire::kWriterWithdrawn) == array.withdrawn,
          "the board says whether the array has been withdrawn");
  require(!world.broker.draining() || flag(wire::kWriterDraining),
          "the board says whether the daemon ends");
  wire::FileRange row = *array.takeover_at;
  const auto is_member = [&](wire::SessionId id) {
    return std::ranges::count(array.members, id) != 0;
  };
  if (array.writer != wire::SessionId{0}) {
    require(is_member(array.writer), "the writer is a member");
    const auto& membership = world.broker.sessions().find(array.writer)->memberships.at(array.id);
    require(static_cast<bool>(membership.writer_row), "the writer has a row");
    row = *membership.writer_row;
  }
  require(wire::writer_row_of(word) == server::row_ref(row), "the board names the row that counts");
  require(array.exclusive_to == wire::SessionId{0} || is_member(array.exclusive_to),
          "an exclusive writer is a member");
  if (!array.pending) return;
  const Session* const next = world.broker.sessions().find(array.pending->to);
  require(next != nullptr && next->connected, "ownership moves to a process that is connected");
  require(next->asks.contains(array.id) && is_member(next->id),
          "ownership moves to a member that has asked");
}

// The row that counts has no version but those that were completed, and the newest of them.
void check_versions(World& world, const Array& array) {
  const wire::WriterRow& row = world.broker.writer_ownership().current_row(array);
  const Numbers& numbers = world.numbers_of(array.id);
  if (numbers.spoilt) return;
  const auto current = wire::unpack_publication(row.publication.load());
  for (std::size_t s = 0; s < array.slots.size(); ++s) {
    const std::uint64_t word = row.slot_words()[s].load();
    if ((word & wire::kHandedOut) != 0 || wire::version_of(word) == 0) continue;
    const Bytes& bytes = world.bytes_at(array.slots[s]);
    if (bytes.array != array.id || bytes.version != wire::version_of(word) || !bytes.complete) {
      violated(fmt::format("array {}: slot {} is said to have version {}, and has {} of array {}",
                           wire::to_int(array.id), s, wire::version_of(word), bytes.version,
                           wire::to_int(bytes.array)));
    }
  }
  require(row.highest_used.load() >= current.version, "a version's number has been used");
  require(row.highest_used.load() >= numbers.begun, "the row that counts knows the highest number");
  if (numbers.uncertain) return;
  if (current.version != numbers.published) {
    violated(fmt::format("array {}: version {} was published, and {} is current",
                         wire::to_int(array.id), numbers.published, current.version));
  }
}

void check_slots(const Array& array) {
  require(array.board->array_id.load() == wire::to_int(array.id), "a board has its array's id");
  require(array.board->slots.load() == array.slots.size(),
          "the board says how many slots there are");
  require(array.slots.size() == array.kind->slots + array.rare().added.size() &&
              array.slots.size() <= array.layout().most,
          "an array has its regular slots and those that were added");
  for (std::size_t i = 0; i < array.rare().added.size(); ++i) {
    require(array.board->places(array.layout())[i].load() ==
                wire::pack_place(array.slots[array.kind->slots + i]),
            "the board says where an added slot is");
  }
}

// Names and ids lead to each other.
void check_names(const World& world) {
  const auto& named = world.broker.catalog().named();
  for (const Array* array : named) {
    require(!array->withdrawn, "what has a name is not withdrawn");
  }
  std::size_t with_name = 0;
  for (const Array* array : world.broker.catalog().all()) {
    if (array->withdrawn) {
      require(!array->members.empty(), "a withdrawn array is there for its members alone");
      continue;
    }
    ++with_name;
    const auto found = named.find(array->name);
    require(found != named.end() && *found == array, "an array is found by its name");
  }
  require(with_name == named.size(), "a name leads to one array");
}

// No two places of one kind overlap, and none is in a file of another domain.
class Places {
 public:
  void add(wire::FileRange at, std::uint64_t bytes, const server::AccessDomain& domain) {
    places_.push_back({wire::to_int(at.file), at.offset, at.offset + bytes, domain});
  }
  void check() {
    std::ranges::sort(places_, {}, [](const Place& p) { return std::tuple(p.file, p.begin); });
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const Place& before = places_[i - 1];
      if (before.file != places_[i].file) continue;
      require(before.end <= places_[i].begin, "no two places overlap");
      require(before.domain == places_[i].domain, "a file is of one domain");
    }
  }

 private:
  struct Place {
    std::uint32_t file;
    std::uint64_t begin;
    std::uint64_t end;
    server::AccessDomain domain;
  };
  std::vector<Place> places_;
};

void check_places(const World& world) {
  Places places;
  for (const Array* array : world.broker.catalog().all()) {
    const auto& device = world.broker.devices().all().find(array->kind->device)->second;
    for (const wire::FileRange& slot : array->slots) {
      places.add(slot, device.segments.place_bytes(array->slot_bytes), array->domain);
    }
    const std::uint32_t most = array->layout().most;
    // But for those that share a row of zeros.
    if (array->own_takeover) {
      places.add(*array->own_takeover, wire::writer_row_units(most) * wire::kRowUnitBytes,
                 array->domain);
    }
    places.add(array->board_at, wire::board_record_units(array->layout()) * wire::kBoardUnitBytes,
               array->domain);
    for (const wire::FileRange& chunk : array->rare().chunks) {
      places.add(chunk, sizeof(wire::SubscriberChunk), array->domain);
    }
  }
  for (const Session* session : world.broker.sessions().all()) {
    for (const auto& [id, membership] : session->memberships) {
      if (membership.reader_row) {
        places.add(*membership.reader_row,
                   wire::reader_row_units(membership.row_class->slots) * wire::kRowUnitBytes,
                   membership.row_class->domain);
      }
      if (membership.writer_row) {
        places.add(*membership.writer_row,
                   wire::writer_row_units(membership.row_class->slots) * wire::kRowUnitBytes,
                   membership.row_class->domain);
      }
    }
  }
  places.check();
}

}  // namespace

void check_arrays(World& world) {
  for (const Array* array : world.broker.catalog().all()) {
    check_slots(*array);
    check_members(world, *array);
    check_ownership(world, *array);
    check_versions(world, *array);
  }
  check_names(world);
  check_places(world);
}

}  // namespace memlease::simulation
