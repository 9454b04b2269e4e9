// The half of the audit that all may see: arrays, their members, boards and names.
#include <algorithm>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/core/audit.h"

namespace memlease::server {
namespace {

using Members = absl::flat_hash_set<wire::SessionId>;
using MembersOf = absl::flat_hash_map<wire::ArrayId, Members>;

void audit_slots(const Broker& broker, const Array& array, Audit& audit) {
  const FileTable& files = broker.rows().files();
  const bool has_pages = files.find(array.board_at.file) != nullptr && array.takeover_at &&
                         files.find((*array.takeover_at).file) != nullptr;
  const bool has_slots =
      audit.require(array.slots.size() == array.kind->slots + array.rare().added.size() &&
                        array.slots.size() <= array.layout().most,
                    "'{}' has {} slots, of which {} were added to {}", array.name,
                    array.slots.size(), array.rare().added.size(), array.kind->slots);
  const bool has_records = audit.require(
      has_pages && files.data(array.board_at) == reinterpret_cast<const std::byte*>(array.board) &&
          files.data(*array.takeover_at) == reinterpret_cast<const std::byte*>(array.takeover),
      "the records of '{}' are not where they are said to be", array.name);
  if (!has_slots || !has_records) return;
  audit.require(array.board->array_id.load() == wire::to_int(array.id) &&
                    array.board->slots.load() == array.slots.size(),
                "the board of '{}' does not say what it is and how many slots it has", array.name);
  for (std::size_t i = 0; i < array.rare().added.size(); ++i) {
    audit.require(array.board->places(array.layout())[i].load() ==
                      wire::pack_place(array.slots[array.kind->slots + i]),
                  "the board of '{}' does not say where added slot {} is", array.name, i);
  }
}

// How many readers the board lists, of all its chunks.
std::size_t listed(const Broker& broker, const Array& array, Audit& audit) {
  const FileTable& files = broker.rows().files();
  std::size_t count = 0;
  const wire::SubscriberChunk* chunk = &array.board->subscribers;
  for (std::size_t next = 0;; ++next) {
    count += static_cast<std::size_t>(
        std::ranges::count_if(chunk->entries, [](const wire::Word& e) { return e.load() != 0; }));
    const bool last = next == array.rare().chunks.size();
    audit.require(chunk->next.load() == (last ? 0 : wire::pack_chunk(array.rare().chunks[next])),
                  "the lists of readers of '{}' do not lead to each other", array.name);
    if (last) return count;
    const wire::FileRange& at = array.rare().chunks[next];
    if (!audit.require(files.find(at.file) != nullptr,
                       "readers of '{}' are listed in a file that is not there", array.name)) {
      return count;
    }
    chunk = reinterpret_cast<const wire::SubscriberChunk*>(files.data(at));
  }
}

void audit_members(const Broker& broker, const Array& array, const Members& members, Audit& audit) {
  audit.require(members.size() == array.members.size(), "a member of '{}' is one twice",
                array.name);
  std::vector<const wire::Word*> entries;
  for (const wire::SessionId id : members) {
    const Session* const session = broker.sessions().find(id);
    const bool has_it_open = session != nullptr && session->memberships.contains(array.id);
    audit.require(has_it_open, "'{}' has member {}, which does not have it open", array.name,
                  wire::to_int(id));
    if (!has_it_open) continue;
    const Membership& membership = session->memberships.at(array.id);
    if (membership.entry == nullptr) continue;
    entries.push_back(membership.entry);
    audit.require(
        membership.reader_row &&
            membership.entry->load() == wire::pack_subscriber(row_ref(*membership.reader_row)),
        "the board of '{}' does not name the row of session {}", array.name, wire::to_int(id));
  }
  std::ranges::sort(entries);
  audit.require(std::ranges::adjacent_find(entries) == entries.end(),
                "two readers of '{}' have one entry of its board", array.name);
  const std::size_t on_board = listed(broker, array, audit);
  const std::uint32_t counted = array.board->subscribed.load();
  audit.require(entries.size() == on_board && entries.size() == counted,
                "'{}' has {} readers; its board lists {} and counts {}", array.name, entries.size(),
                on_board, counted);
}

void audit_writer(const Broker& broker, const Array& array, const Members& members, Audit& audit) {
  const std::uint64_t word = array.board->writer.load();
  const auto flag = [word](std::uint64_t bits) { return (word & bits) != 0; };
  audit.require(flag(wire::kWriterVacant) == (array.writer == wire::SessionId{0}) &&
                    (array.withdrawn || flag(wire::kWriterMoving) == (array.pending != nullptr)) &&
                    flag(wire::kWriterWithdrawn) == array.withdrawn &&
                    (!broker.draining() || flag(wire::kWriterDraining)),
                "the board of '{}' does not say what goes on (writer word {:#x})", array.name,
                word);
  audit.require(array.exclusive_to == wire::SessionId{0} || members.contains(array.exclusive_to),
                "the exclusive writer of '{}' does not have it open", array.name);
  wire::FileRange row = *array.takeover_at;
  if (array.writer != wire::SessionId{0}) {
    const Session* const writer = broker.sessions().find(array.writer);
    const bool has_row = writer != nullptr && members.contains(array.writer) &&
                         writer->memberships.contains(array.id) &&
                         writer->memberships.at(array.id).writer_row;
    audit.require(has_row, "the writer of '{}' has no row", array.name);
    if (!has_row) return;
    row = *writer->memberships.at(array.id).writer_row;
  }
  audit.require(wire::writer_row_of(word) == row_ref(row),
                "the board of '{}' does not name the row that counts", array.name);
  if (array.pending != nullptr) {
    const Session* const next = broker.sessions().find(array.pending->to);
    audit.require(next != nullptr && next->connected && next->asks.contains(array.id) &&
                      members.contains(next->id),
                  "'{}' goes to a writer that has not asked", array.name);
  }
  if (array.queue == nullptr) return;
  for (const wire::SessionId id : array.queue->waiting) {
    audit.require(members.contains(id), "session {} waits to write '{}' and does not have it open",
                  wire::to_int(id), array.name);
  }
}

void audit_home(const Broker& broker, const Array& array, Audit& audit) {
  if (array.rare().home) {
    const Array* const home = broker.catalog().find(*array.rare().home);
    audit.require(home == nullptr || std::ranges::count(home->rare().replicas, array.id) == 1,
                  "'{}' is not among its home's replicas", array.name);
    audit.require(array.withdrawn || (home != nullptr && !home->withdrawn),
                  "'{}' is there without its home", array.name);
  }
  for (const wire::ArrayId id : array.rare().replicas) {
    const Array* const replica = broker.catalog().find(id);
    audit.require(replica != nullptr && replica->rare().home == array.id,
                  "replica {} of '{}' is not there, or another's", wire::to_int(id), array.name);
  }
}

// Names and ids lead to each other.
void audit_names(const Broker& broker, const std::vector<Array*>& arrays, Audit& audit) {
  const Catalog& catalog = broker.catalog();
  std::size_t named = 0;
  std::size_t withdrawn = 0;
  std::size_t replicas = 0;
  for (const Array* array : arrays) {
    if (array->withdrawn) {
      ++withdrawn;
      audit.require(catalog.withdrawn().contains(array->id) && !array->members.empty(),
                    "'{}' has been withdrawn and is there for nobody", array->name);
      continue;
    }
    ++named;
    replicas += array->rare().home ? 1 : 0;
    audit.require(!array->rare().home || catalog.replicas().contains(array->id),
                  "'{}' is not among the replicas", array->name);
    audit.require(catalog.find(array->name) == array, "'{}' is not found by its name", array->name);
  }
  audit.require(named == catalog.named().size() && withdrawn == catalog.withdrawn().size() &&
                    replicas == catalog.replicas().size(),
                "{} arrays have names, {} none and {} a home; {}, {} and {} are said to", named,
                withdrawn, replicas, catalog.named().size(), catalog.withdrawn().size(),
                catalog.replicas().size());
}

void audit_session(const Broker& broker, const Session& session, const MembersOf& members_of,
                   Audit& audit) {
  for (const wire::ArrayId id : session.created) {
    const Array* const array = broker.catalog().find(id);
    audit.require(array != nullptr && array->creator == session.id,
                  "session {} is said to have created array {}", wire::to_int(session.id),
                  wire::to_int(id));
  }
  for (const auto& [id, membership] : session.memberships) {
    ++audit.memberships;
    const auto members = members_of.find(id);
    const bool is_member = members != members_of.end() && members->second.contains(session.id);
    audit.require(is_member || (membership.entry == nullptr &&
                                (membership.reader_row || membership.writer_row)),
                  "session {} has array {} open, which does not know it", wire::to_int(session.id),
                  wire::to_int(id));
  }
}

}  // namespace

void audit_arrays(const Broker& broker, Audit& audit) {
  const std::vector<Array*> arrays = broker.catalog().all();
  audit.arrays = arrays.size();
  MembersOf members_of;
  for (const Array* array : arrays) {
    const Members& members =
        members_of.try_emplace(array->id, array->members.begin(), array->members.end())
            .first->second;
    audit_slots(broker, *array, audit);
    audit_members(broker, *array, members, audit);
    audit_writer(broker, *array, members, audit);
    audit_home(broker, *array, audit);
  }
  audit_names(broker, arrays, audit);
  audit.sessions = broker.sessions().size();
  std::size_t ending = 0;
  for (const Session* session : broker.sessions().all()) {
    audit_session(broker, *session, members_of, audit);
    ending += session->ending ? 1 : 0;
  }
  audit.require(broker.sessions_are_ending() == (ending != 0),
                "{} sessions are to be ended, and {} ends are worked off", ending,
                broker.sessions_are_ending() ? "some" : "no");
}

}  // namespace memlease::server
