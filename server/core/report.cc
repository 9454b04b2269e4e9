#include "server/core/report.h"

namespace memlease::server {
namespace {

const wire::WriterRow& writer_row(const Broker& broker, wire::FileRange at) {
  return *reinterpret_cast<const wire::WriterRow*>(broker.files().data(at));
}

const wire::WriterRow& current_row(const Broker& broker, const Array& array) {
  if (array.writer == wire::SessionId{0}) return *array.heir;
  const Session& session = *broker.sessions().find(array.writer);
  return writer_row(broker, *session.memberships.at(array.id).writer_row);
}

}  // namespace

std::vector<HolderReport> holders_of(const Broker& broker, const Array& array) {
  const wire::WriterRow& current = current_row(broker, array);
  std::vector<HolderReport> holders;
  for (const wire::SessionId id : array.members) {
    const Session& session = *broker.sessions().find(id);
    const Membership& membership = session.memberships.at(array.id);
    HolderReport holder;
    holder.session = &session;
    holder.array = &array;
    holder.since_unix_ms = membership.since_unix_ms;
    holder.writer = array.writer == id;
    holder.writing =
        membership.writer_row && writer_row(broker, *membership.writer_row).writing.load() != 0;
    holder.subscribed = membership.entry != nullptr;
    if (membership.reader_row && holder.subscribed) {
      const auto& row =
          *reinterpret_cast<const wire::ReaderRow*>(broker.files().data(*membership.reader_row));
      for (std::uint32_t s = 0; s < array.spec.slots; ++s) {
        if (row.holds()[s].load() == 0) continue;
        holder.versions.push_back(wire::version_of(current.slot_words()[s].load()));
      }
    }
    holders.push_back(std::move(holder));
  }
  return holders;
}

ArrayReport report_of(const Broker& broker, const Array& array) {
  ArrayReport report;
  const wire::WriterRow& current = current_row(broker, array);
  report.version = wire::unpack_publication(current.publication.load()).version;
  for (std::uint32_t s = 0; s < array.spec.slots; ++s) {
    report.slot_versions.push_back(wire::version_of(current.slot_words()[s].load()));
  }
  for (const HolderReport& holder : holders_of(broker, array)) {
    report.readers += holder.versions.empty() ? 0 : 1;
    report.subscribers += holder.subscribed ? 1 : 0;
    if (holder.writer) report.writer_pid = holder.session->peer.pid;
  }
  return report;
}

}  // namespace memlease::server
