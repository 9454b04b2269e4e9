#include "server/core/report.h"

#include <algorithm>
#include <bit>

namespace memlease::server {
namespace {

std::uint64_t version_in(const wire::WriterRow& row, const Array& array) {
  if (wire::only_slot_is_empty(row, array.kind->slots)) return 0;
  return wire::unpack_publication(row.publication.load()).version;
}

}  // namespace

std::uint64_t held_slots_of(const Broker& broker, const Array& array) {
  std::uint64_t held = 0;
  for (const wire::SessionId id : array.members) {
    held |= broker.rows().held_slots(broker.sessions().find(id)->memberships.at(array.id), array);
  }
  return held;
}

std::uint64_t current_version(const Broker& broker, const Array& array) {
  return version_in(broker.writer_ownership().current_row(array), array);
}

std::vector<HolderReport> holders_of(const Broker& broker, const Array& array) {
  const wire::WriterRow& current = broker.writer_ownership().current_row(array);
  std::vector<HolderReport> holders;
  for (const wire::SessionId id : array.members) {
    const Session& session = *broker.sessions().find(id);
    const Membership& membership = session.memberships.at(array.id);
    HolderReport holder;
    holder.session = &session;
    holder.array = &array;
    holder.since_unix_ms = membership.since.unix_ms;
    holder.writer = array.writer == id;
    holder.writing = broker.rows().is_writing(membership);
    holder.subscribed = membership.entry != nullptr;
    if (membership.reader_row && holder.subscribed) {
      const wire::ReaderRow& row = broker.rows().reader(*membership.reader_row);
      for (std::uint32_t s = 0; s < array.slots.size(); ++s) {
        if (row.holds()[s].load() == 0) continue;
        holder.versions.push_back(wire::version_of(current.slot_words()[s].load()));
      }
      std::ranges::sort(holder.versions);
    }
    holders.push_back(std::move(holder));
  }
  return holders;
}

ArrayReport report_of(const Broker& broker, const Array& array) {
  ArrayReport report;
  const wire::WriterRow& current = broker.writer_ownership().current_row(array);
  report.version = version_in(current, array);
  report.empty_writes = current.empty_writes.load();
  report.copied_versions = current.copied_versions.load();
  for (std::uint32_t s = 0; s < array.slots.size(); ++s) {
    report.slot_versions.push_back(wire::version_of(current.slot_words()[s].load()));
  }
  std::uint64_t all_held = 0;
  for (const wire::SessionId id : array.members) {
    const Session& session = *broker.sessions().find(id);
    const Membership& membership = session.memberships.at(array.id);
    const std::uint64_t held = broker.rows().held_slots(membership, array);
    all_held |= held;
    report.readers += held == 0 ? 0 : 1;
    report.subscribers += membership.entry == nullptr ? 0 : 1;
    if (array.writer == id) report.writer = &session;
  }
  report.held_slots = static_cast<std::uint32_t>(std::popcount(all_held));
  return report;
}

}  // namespace memlease::server
