#include "server/core/broker.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/core/slot_board.h"
#include "wire/error.h"

namespace memlease::server {

using wire::ArrayId;
using wire::ErrorCode;
using wire::make_error;
using wire::SessionId;

namespace {

absl::Status withdrawn_error(const Array& array) {
  return make_error(ErrorCode::kWithdrawn, fmt::format("'{}' has been withdrawn", array.spec.name),
                    "Create it again.");
}

}  // namespace

absl::Status shutting_down() {
  return make_error(ErrorCode::kDaemonUnavailable, "the daemon is shutting down",
                    "Connect again once it has been started again.");
}

Broker::Broker(const Dependencies& dependencies, const Limits& limits)
    : dependencies_(dependencies),
      quota_({0, limits.per_uid.arrays, limits.per_uid.sessions}),
      files_(dependencies_.dispose, limits.file_numbers),
      devices_(files_),
      store_(files_, dependencies_.pages, devices_, quota_),
      rows_(files_, dependencies_.pages),
      writer_ownership_(rows_, sessions_, dependencies_.clock),
      slot_growth_(store_, rows_, sessions_, writer_ownership_),
      imports_(files_, sessions_) {
  devices_.add(dependencies_.host, {limits.memory, limits.per_uid.bytes});
}

void Broker::add_device(DeviceBackend& backend, const DeviceLimits& limits) {
  devices_.add(backend, limits);
}

// ---- Sessions.

absl::StatusOr<NewSession> Broker::open_session(const PeerIdentity& peer) {
  if (auto status = refuse_while_draining(); !status.ok()) return status;
  auto charge = quota_.charge(peer.uid, {0, 0, 1});
  if (!charge.ok()) return charge.status();
  auto session = std::make_unique<Session>();
  session->id = SessionId{++last_session_};
  session->peer = peer;
  session->since_unix_ms = dependencies_.clock.unix_ms();
  session->charge = std::move(*charge);
  dependencies_.fill_random(session->token);
  const NewSession answer{session->id, session->token};
  sessions_.add(std::move(session));
  return answer;
}

absl::StatusOr<FileGrant> Broker::fetch_file(SessionId id, wire::FileId file) {
  const Session* session = sessions_.find(id);
  assert(session != nullptr);
  return files_.grant(file, session->peer, id);
}

// Hang-up revokes what needs a call; its rows and its right stand until the process has exited,
// unless it said goodbye.
bool Broker::hang_up(SessionId id, bool goodbye) {
  Session* session = sessions_.find(id);
  assert(session != nullptr);
  session->connected = false;
  bool in_use = false;
  for (const auto& [array_id, membership] : session->memberships) {
    if (Array* array = catalog_.find(array_id)) {
      writer_ownership_.cancel(*array, id);
      in_use = in_use || this->in_use(*session, membership, *array);
    }
  }
  if (!goodbye || in_use) return true;
  end_session(id, Departure::kLeft);
  return false;
}

std::vector<ReclaimedArray> Broker::exited(SessionId id) {
  return end_session(id, Departure::kExited);
}

std::vector<ReclaimedArray> Broker::end_session(SessionId id, Departure how) {
  Session* session = sessions_.find(id);
  assert(session != nullptr);
  if (how == Departure::kExited) devices_.process_exited(session->peer.pid);
  std::vector<ReclaimedArray> reclaimed;
  std::vector<ArrayId> ids;
  for (const auto& [array_id, membership] : session->memberships) {
    ids.push_back(array_id);
    const Array* array = catalog_.find(array_id);
    if (array == nullptr) continue;
    const std::string reason = reclaim_reason(*session, *array);
    if (reason.empty()) continue;
    // The machine's clock may have been set back.
    const std::uint64_t now_ms = std::max(dependencies_.clock.unix_ms(), membership.since_unix_ms);
    reclaimed.push_back({array->spec.name, array->slot_bytes * array->slots.size(),
                         session->peer.pid, session->peer.uid, session->peer.command,
                         static_cast<double>(now_ms - membership.since_unix_ms) / 1000, reason});
  }
  for (const ArrayId array_id : ids) {
    if (Array* array = catalog_.find(array_id)) detach(*session, *array, how);
  }
  // Writers may have made their streams wait for reads that will never end now.
  if (how == Departure::kExited) {
    for (const auto& [row, events] : session->read_events) events->re_record();
  }
  imports_.close_all(*session);
  const auto created = session->created;
  for (const ArrayId array_id : created) {
    Array& array = *catalog_.find(array_id);
    if (array.spec.lifetime == wire::Lifetime::kSession) withdraw(array);
  }
  sessions_.erase(id);
  files_.session_ended(id);
  return reclaimed;
}

std::string Broker::reclaim_reason(const Session& session, const Array& array) const {
  const Membership& membership = session.memberships.at(array.id);
  if (rows_.is_writing(membership)) return "was writing";
  if (rows_.in_use(membership, array)) return "held a slot";
  if (array.creator == session.id && array.spec.lifetime == wire::Lifetime::kSession) {
    return "created it";
  }
  return "";
}

// ---- Arrays.

absl::StatusOr<Session*> Broker::authenticate(std::span<const std::uint8_t> credential,
                                              uid_t uid) const {
  return sessions_.authenticate(credential, uid);
}

absl::Status Broker::refuse_while_draining() const {
  return draining_ ? shutting_down() : absl::OkStatus();
}

absl::StatusOr<Array*> Broker::readable(const PeerIdentity& viewer, const std::string& name) const {
  Array* array = catalog_.find(name);
  if (array == nullptr || !may_read(viewer, array->domain)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("there is no array '{}' that uid {} may read", name, viewer.uid),
                      "List what there is: memleasectl ls. Wait for one that is yet to come: "
                      "wait_for(name).");
  }
  return array;
}

absl::Status Broker::add_memory(const SegmentPool::Growth& growth,
                                absl::StatusOr<std::unique_ptr<SharedMemory>> memory) {
  return store_.add_memory(growth, std::move(memory));
}

absl::StatusOr<Broker::Creation> Broker::create(Session& session, const wire::ArraySpec& spec,
                                                bool exist_ok) {
  if (auto status = refuse_while_draining(); !status.ok()) return status;
  if (auto status = wire::validate(spec); !status.ok()) return status;
  if (devices_.find(spec.device) == nullptr) {
    return make_error(
        ErrorCode::kUnsupported,
        fmt::format("this daemon has no device '{}', but {}", spec.device,
                    fmt::join(devices_.names(), ", ")),
        "A daemon sees the GPUs that CUDA_VISIBLE_DEVICES, or its container, leave to it.");
  }
  if (Array* existing = catalog_.find(spec.name)) {
    if (!exist_ok || !may_read(session.peer, existing->domain)) {
      return make_error(ErrorCode::kAlreadyExists, fmt::format("the name '{}' is taken", spec.name),
                        "Open it, withdraw it, or create with exist_ok.");
    }
    wire::ArraySpec wanted = spec;
    wanted.strides_bytes = wire::strides_bytes_of(spec);
    wanted.max_slots = wire::max_slots_of(spec);
    wire::ArraySpec stands = existing->spec;
    stands.strides_bytes = wire::strides_bytes_of(stands);
    if (wanted != stands) {
      return make_error(
          ErrorCode::kAlreadyExists,
          fmt::format("'{}' exists as {} on {} with {} slots (max_slots {}), mode {:#o}: not what "
                      "was asked for ({} on {}, {} slots (max_slots {}), mode {:#o}, or another "
                      "layout or lifetime)",
                      spec.name, describe(stands), stands.device, stands.slots, stands.max_slots,
                      stands.mode, describe(wanted), wanted.device, wanted.slots, wanted.max_slots,
                      wanted.mode),
          "Open it as it is, or withdraw it first.");
    }
    return join(session, *existing, false);
  }
  auto creation = store_.create(spec, {session.peer.uid, session.peer.gid, spec.mode});
  if (!creation.ok()) return creation.status();
  if (const auto* growth = std::get_if<SegmentPool::Growth>(&*creation)) return *growth;
  auto array = std::get<std::unique_ptr<Array>>(std::move(*creation));
  array->creator = session.id;
  array->created_unix_ms = dependencies_.clock.unix_ms();
  session.created.insert(array->id);
  return join(session, catalog_.add(std::move(array)), true);
}

absl::StatusOr<Broker::Opened> Broker::open(Session& session, const std::string& name) {
  if (auto status = refuse_while_draining(); !status.ok()) return status;
  if (auto status = wire::validate_name(name); !status.ok()) return status;
  auto array = readable(session.peer, name);
  if (!array.ok()) return array.status();
  return join(session, **array, false);
}

Broker::Opened Broker::join(Session& session, Array& array, bool created) {
  auto [it, is_new] = session.memberships.try_emplace(array.id);
  if (is_new) {
    it->second.domain = array.domain;
    it->second.device = array.spec.device;
    it->second.slots = array.layout().most;
    it->second.since_unix_ms = dependencies_.clock.unix_ms();
    array.members.push_back(session.id);
    files_.pin(array.board_at.file, session.id);
    for (const wire::FileRange& slot : array.slots) files_.pin(slot.file, session.id);
  }
  ++it->second.opens;
  return Opened{&array, may_write(session.peer, array.domain), created};
}

absl::StatusOr<Broker::Member> Broker::member(Session& session, ArrayId id) {
  const auto membership = session.memberships.find(id);
  Array* array = catalog_.find(id);
  if (membership == session.memberships.end() || array == nullptr) {
    return make_error(ErrorCode::kWithdrawn,
                      "the array has been withdrawn, or the process that created it has ended",
                      "Open its name again if it has been created again.");
  }
  return Member{array, &membership->second};
}

absl::StatusOr<Broker::Subscribed> Broker::subscribe(Session& session, ArrayId id) {
  if (auto status = refuse_while_draining(); !status.ok()) return status;
  auto member = this->member(session, id);
  if (!member.ok()) return member.status();
  auto& [array, membership] = *member;
  if (array->withdrawn) return withdrawn_error(*array);
  if (!membership->reader_row) {
    auto row = rows_.take(session, *array, RowKind::kReader);
    if (!row.ok()) return row.status();
    membership->reader_row = *row;
  }
  Subscribed subscribed{row_ref(*membership->reader_row)};
  if (DeviceBackend& device = devices_.at(array->spec.device).backend(); device.has_events()) {
    auto events = rows_.read_events(session, *membership->reader_row, device, array->spec.slots);
    if (!events.ok()) return events.status();
    subscribed.read_events = *events;
  }
  if (membership->entry == nullptr) {
    auto entry = store_.free_entry(*array);
    if (!entry.ok()) return entry.status();
    membership->entry = *entry;
    add_subscriber(*array->board, **entry, subscribed.row);
  }
  return subscribed;
}

absl::StatusOr<WriterAnswer> Broker::acquire_writer(Session& session, ArrayId id) {
  if (auto status = refuse_while_draining(); !status.ok()) return status;
  auto member = this->member(session, id);
  if (!member.ok()) return member.status();
  auto& [array, membership] = *member;
  if (!may_write(session.peer, array->domain)) {
    return make_error(
        ErrorCode::kDenied,
        fmt::format("uid {} may read '{}' but not write it (owner {}, mode {:#o})",
                    session.peer.uid, array->spec.name, array->domain.uid, array->domain.mode),
        "Its owner must create it with a mode such as 0660.");
  }
  if (array->withdrawn) return withdrawn_error(*array);
  if (!membership->writer_row) {
    auto row = rows_.take(session, *array, RowKind::kWriter);
    if (!row.ok()) return row.status();
    membership->writer_row = *row;
  }
  return writer_ownership_.ask(*array, session.id, *membership->writer_row);
}

absl::Status Broker::confirm_writer(Session& session, ArrayId id, std::uint64_t offer) {
  auto member = this->member(session, id);
  if (!member.ok()) return member.status();
  return writer_ownership_.confirm(*member->array, session.id, offer);
}

absl::Status Broker::cancel_writer(Session& session, ArrayId id) {
  auto member = this->member(session, id);
  if (!member.ok()) return member.status();
  writer_ownership_.cancel(*member->array, session.id);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<SegmentPool::Growth>> Broker::add_slot(Session& session, ArrayId id,
                                                                    std::uint32_t slots) {
  if (auto status = refuse_while_draining(); !status.ok()) return status;
  auto member = this->member(session, id);
  if (!member.ok()) return member.status();
  if (member->array->withdrawn) return withdrawn_error(*member->array);
  return slot_growth_.add(*member->array, session, slots);
}

absl::Status Broker::evict(const PeerIdentity& viewer, SessionId id) {
  Session* session = sessions_.find(id);
  const auto owns = [&](const auto& membership) {
    return membership.second.domain.uid == viewer.uid;
  };
  const bool may = session != nullptr &&
                   (viewer.uid == 0 || viewer.uid == session->peer.uid ||
                    (!session->memberships.empty() &&
                     std::all_of(session->memberships.begin(), session->memberships.end(), owns)));
  if (!may) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("there is no session {} of yours, nor one that has arrays of yours "
                    "alone",
                    wire::to_int(id)),
        "List them: memleasectl sessions, memleasectl holders.");
  }
  session->evicted = true;
  return absl::OkStatus();
}

std::vector<ShrunkArray> Broker::take_idle_slots() {
  std::vector<ShrunkArray> shrunk;
  if (added_slots() == 0) return shrunk;
  for (Array* array : catalog_.all()) {
    if (array->added.empty()) continue;
    const std::uint32_t taken = slot_growth_.take_idle(*array);
    if (taken == 0) continue;
    shrunk.push_back({array->spec.name, array->domain.uid, taken, array->slots.size()});
  }
  return shrunk;
}

// With what its GPU work has not finished: whoever comes next would not know of that.
bool Broker::in_use(const Session& session, const Membership& membership,
                    const Array& array) const {
  if (rows_.in_use(membership, array)) return true;
  if (array.writer == session.id && !array.write_events->all_complete()) return true;
  if (!membership.reader_row) return false;
  const auto reads =
      session.read_events.find(wire::pack_subscriber(row_ref(*membership.reader_row)));
  return reads != session.read_events.end() && !reads->second->all_complete();
}

absl::Status Broker::leave(Session& session, ArrayId id, std::uint32_t opens) {
  const auto it = session.memberships.find(id);
  if (it == session.memberships.end()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("array {} is not open in this session", to_int(id)),
                      "Leave an array once.");
  }
  Membership& membership = it->second;
  if (opens < membership.opens) {
    membership.opens -= opens;
    return absl::OkStatus();
  }
  Array* array = catalog_.find(id);
  if (array != nullptr && in_use(session, membership, *array)) {
    return make_error(
        ErrorCode::kBusy,
        fmt::format("this session still holds slots of '{}', or a GPU is still at work "
                    "on them for it",
                    array->spec.name),
        "Release all leases and views first, and wait for the GPU.");
  }
  if (array != nullptr) detach(session, *array, Departure::kLeft);
  SessionRows::give_back(session, membership);
  session.memberships.erase(it);
  return absl::OkStatus();
}

absl::Status Broker::withdraw(const PeerIdentity& viewer, const std::string& name) {
  if (auto status = wire::validate_name(name); !status.ok()) return status;
  auto array = readable(viewer, name);
  if (!array.ok()) return array.status();
  if (!may_write(viewer, (*array)->domain)) {
    return make_error(ErrorCode::kDenied,
                      fmt::format("uid {} may not withdraw '{}' of uid {} (mode {:#o})", viewer.uid,
                                  name, (*array)->domain.uid, (*array)->domain.mode),
                      "Ask its owner, or somebody who may write it.");
  }
  withdraw(**array);
  return absl::OkStatus();
}

void Broker::withdraw(Array& array) {
  if (array.withdrawn) return;
  array.withdrawn = true;
  catalog_.remove_name(array);
  set_withdrawn(*array.board);
  // Who uses nothing now can use nothing any more; who does leaves when it is done, or exits. Where
  // there are events all do that: they have them open, and must not find them destroyed.
  const std::vector<SessionId> members = array.members;
  for (const SessionId id : members) {
    Session& session = *sessions_.find(id);
    if (array.write_events->empty() && !in_use(session, session.memberships.at(array.id), array)) {
      const bool last = array.members.size() == 1;
      detach(session, array, Departure::kLeft);
      if (last) return;
    }
  }
  destroy_if_unused(array);
}

void Broker::detach(Session& session, Array& array, Departure how) {
  Membership& membership = session.memberships.at(array.id);
  writer_ownership_.gone(array, session.id, how);
  if (membership.entry != nullptr) {
    remove_subscriber(*array.board, *membership.entry);
    membership.entry = nullptr;
  }
  array.members.erase(std::remove(array.members.begin(), array.members.end(), session.id),
                      array.members.end());
  destroy_if_unused(array);
}

void Broker::destroy_if_unused(Array& array) {
  if (!array.withdrawn || !array.members.empty()) return;
  store_.destroy(array);
  if (Session* creator = sessions_.find(array.creator)) creator->created.erase(array.id);
  catalog_.erase(array.id);
}

bool Broker::exists(const PeerIdentity& viewer, const std::string& name) const {
  return readable(viewer, name).ok();
}

std::vector<std::string> Broker::names(const PeerIdentity& viewer) const {
  std::vector<std::string> readable;
  for (const auto& [name, array] : catalog_.named()) {
    if (may_read(viewer, array->domain)) readable.push_back(name);
  }
  return readable;
}

void Broker::drain() {
  draining_ = true;
  for (Array* array : catalog_.all()) set_draining(*array->board);
}

bool Broker::in_use() const {
  for (const Session* session : sessions_.all()) {
    for (const auto& [id, membership] : session->memberships) {
      const Array* array = catalog_.find(id);
      if (array != nullptr && in_use(*session, membership, *array)) return true;
    }
  }
  return false;
}

}  // namespace memlease::server
