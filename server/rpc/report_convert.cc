#include "server/rpc/report_convert.h"

#include <algorithm>
#include <vector>

#include "wire/grpc/convert.h"
#include "wire/utf8.h"

namespace memlease::server {
namespace {

// So that an answer is smaller than gRPC's limit, whatever texts its events have.
// Of a part of a sample: a fraction of a MiB, and of a millisecond or two.
constexpr std::size_t kMostSampled = 2048;
constexpr std::size_t kSampledPerTurn = 512;
constexpr int kMostDescribed = 128;
constexpr std::size_t kMostLooks = 4096;  // at the members of arrays that are described

v1::HistoryEvent to_proto(const HistoryEvent& event) {
  v1::HistoryEvent out;
  out.set_number(event.number);
  out.set_unix_ms(event.unix_ms);
  out.set_kind(static_cast<v1::HistoryEvent::Kind>(event.what));
  out.set_session_id(wire::to_int(event.session));
  out.set_pid(event.pid);
  out.set_uid(event.uid);
  out.set_command(wire::to_utf8(event.command));
  out.set_array(event.array);
  out.set_bytes(event.bytes);
  out.set_held_ms(event.held_ms);
  out.set_slots(event.slots);
  out.set_reason(wire::to_utf8(event.reason));
  out.set_hint(wire::to_utf8(event.hint));
  if (event.mechanism) out.set_mechanism(std::string(name_of(*event.mechanism)));
  return out;
}

}  // namespace

void add_holders(const Broker& broker, const Array& array, v1::HoldersReply& reply) {
  for (const HolderReport& report : holders_of(broker, array)) {
    v1::Holder& holder = *reply.add_holders();
    holder.set_session_id(wire::to_int(report.session->id));
    holder.set_pid(report.session->peer.pid);
    holder.set_uid(report.session->peer.uid);
    holder.set_command(wire::to_utf8(report.session->peer.command));
    holder.set_array(array.name);
    holder.set_array_bytes(array.slot_bytes);
    holder.mutable_versions()->Add(report.versions.begin(), report.versions.end());
    holder.set_writer(report.writer);
    holder.set_writing(report.writing);
    holder.set_subscribed(report.subscribed);
    holder.set_since_unix_ms(report.since_unix_ms);
    holder.set_connected(report.session->connected);
    holder.set_withdrawn(array.withdrawn);
  }
}

void fill(const Broker& broker, const Array& array, v1::ArrayInfo& info) {
  const ArrayReport report = report_of(broker, array);
  info.set_array_id(wire::to_int(array.id));
  *info.mutable_spec() = wire::to_proto(array.spec());
  info.set_owner_uid(array.domain.uid);
  info.set_owner_gid(array.domain.gid);
  info.set_slots(static_cast<std::uint32_t>(array.slots.size()));
  info.set_bytes(array.slot_bytes * array.slots.size());
  info.set_held_bytes(array.slot_bytes * report.held_slots);
  info.set_empty_writes(report.empty_writes);
  info.set_copied_versions(report.copied_versions);
  info.set_version(report.version);
  info.set_readers(report.readers);
  info.set_subscribers(report.subscribers);
  if (report.writer != nullptr) {
    info.set_writer_pid(report.writer->peer.pid);
    info.set_writer_session_id(wire::to_int(report.writer->id));
  }
  info.set_created_unix_ms(array.created.unix_ms);
  info.set_withdrawn(array.withdrawn);
  info.mutable_slot_versions()->Add(report.slot_versions.begin(), report.slot_versions.end());
}

void fill(const Session& session, v1::SessionInfo& info) {
  info.set_session_id(wire::to_int(session.id));
  info.set_pid(session.peer.pid);
  info.set_uid(session.peer.uid);
  info.set_gid(session.peer.gid);
  info.set_command(wire::to_utf8(session.peer.command));
  info.set_since_unix_ms(session.since.unix_ms);
  info.set_arrays_open(session.memberships.size());
  info.set_connected(session.connected);
}

bool fill(const Broker& broker, const v1::SampleRequest& request, const PeerIdentity& viewer,
          SamplePart& part, v1::SampleReply& reply) {
  const auto next_after = [&](std::uint64_t id) {
    return broker.catalog().first_after(wire::ArrayId{id});
  };
  const std::size_t turn_ends = part.sampled + kSampledPerTurn;
  const std::uint64_t after = part.sampled == 0 ? request.after() : reply.through();
  for (const Array* array = next_after(after); array != nullptr;
       array = next_after(reply.through())) {
    if (part.sampled == kMostSampled || reply.described_size() >= kMostDescribed ||
        part.looks >= kMostLooks) {
      return false;
    }
    if (part.sampled == turn_ends) return true;
    ++part.sampled;
    const std::uint64_t id = wire::to_int(array->id);
    reply.set_through(id);
    if (array->withdrawn || !broker.shows(viewer, *array)) continue;
    reply.add_array_ids(id);
    reply.add_versions(current_version(broker, *array));
    reply.add_writer_sessions(wire::to_int(array->writer));
    reply.add_open_sessions(static_cast<std::uint32_t>(array->members.size()));
    reply.add_slots(static_cast<std::uint32_t>(array->slots.size()));
    if (id <= request.known_through()) continue;
    part.looks += looks_at(*array);
    fill(broker, *array, *reply.add_described());
  }
  reply.clear_through();
  return false;
}

void fill(const History& history, std::uint64_t after, const PeerIdentity& viewer,
          std::size_t at_most, v1::HistoryReply& reply) {
  const History::Page page = history.after(after, at_most);
  for (const HistoryEvent* event : page.events) {
    if (may_see(viewer, *event)) *reply.add_events() = to_proto(*event);
  }
  reply.set_through(page.through);
  reply.set_newest(history.newest());
  reply.set_dropped(page.dropped);
}

}  // namespace memlease::server
