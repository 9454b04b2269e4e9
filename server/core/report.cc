#include "server/core/report.h"

#include <algorithm>
#include <bit>

namespace memlease::server {

std::uint64_t held_slots_of(const Broker& broker, const Array& array) {
  static_assert(wire::kMaxSlots <= 64);
  std::uint64_t held = 0;
  for (const wire::SessionId id : array.members) {
    const Membership& membership = broker.sessions().find(id)->memberships.at(array.id);
    if (!membership.reader_row || membership.entry == nullptr) continue;
    const wire::ReaderRow& row = broker.rows().reader(*membership.reader_row);
    for (std::size_t s = 0; s < array.slots.size(); ++s) {
      if (row.holds()[s].load() != 0) held |= std::uint64_t{1} << s;
    }
  }
  return held;
}

std::uint64_t current_version(const Broker& broker, const Array& array) {
  const wire::WriterRow& current = broker.writer_ownership().current_row(array);
  return wire::unpack_publication(current.publication.load()).version;
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
    holder.since_unix_ms = membership.since_unix_ms;
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
  report.version = current_version(broker, array);
  report.empty_writes = current.empty_writes.load();
  for (std::uint32_t s = 0; s < array.slots.size(); ++s) {
    report.slot_versions.push_back(wire::version_of(current.slot_words()[s].load()));
  }
  report.held_slots = static_cast<std::uint32_t>(std::popcount(held_slots_of(broker, array)));
  for (const HolderReport& holder : holders_of(broker, array)) {
    report.readers += holder.versions.empty() ? 0 : 1;
    report.subscribers += holder.subscribed ? 1 : 0;
    if (holder.writer) report.writer = holder.session;
  }
  return report;
}

}  // namespace memlease::server
