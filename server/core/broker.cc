#include "server/core/broker.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "server/core/refusals.h"
#include "server/core/slot_board.h"

namespace memlease::server {

using wire::ArrayId;
using wire::SessionId;

namespace {

// As many as a connected process takes at most: by its attach connection, gRPC's, the gate's, and
// by what watches its process.
constexpr std::uint64_t kSessionDescriptors = 7;

// What counts once, whatever the device.
Usage limits_of_daemon(const Usage& per_uid) {
  Usage limits = per_uid;
  limits.bytes = 0;
  return limits;
}

// None of who has said that he goes.
std::string death_of(const Session& session, std::string_view what) {
  return session.farewell == Farewell::kNone ? std::string(what) : "";
}

}  // namespace

Broker::Broker(const Dependencies& dependencies, const Limits& limits)
    : dependencies_(dependencies),
      name_rules_(limits.names),
      quota_(limits_of_daemon(limits.per_uid), "quota_", "host", dependencies_.payer_of),
      session_numbers_(limits.session_numbers),
      connections_(quota_),
      files_(quota_, dependencies_.dispose, limits.file_numbers),
      tally_(files_),
      recorder_(dependencies_.clock, tally_),
      devices_(files_, dependencies_.payer_of),
      store_(files_, dependencies_.pages, devices_, quota_),
      rows_(files_, dependencies_.pages),
      writer_ownership_(rows_, sessions_, name_board_, dependencies_.clock),
      slot_growth_(store_, rows_, sessions_, writer_ownership_),
      replicas_(catalog_, store_, writer_ownership_),
      reclaimer_(
          {catalog_, sessions_, rows_, store_, writer_ownership_, replicas_, recorder_, tally_}),
      memberships_(catalog_, files_, quota_, reclaimer_, dependencies_.clock),
      imports_(files_),
      session_ends_({quota_, catalog_, sessions_, rows_, files_, connections_, devices_, replicas_,
                     reclaimer_, imports_, recorder_, tally_},
                    limits.arrays_per_slice),
      name_board_(files_, dependencies_.pages) {
  quota_.set_supply(limits.supply);
  devices_.add(dependencies_.host, {limits.memory, limits.per_uid.bytes});
  files_.count_segments(devices_.at(dependencies_.host.device()).quota);
}

void Broker::set_limits(const Limits& limits, const DeviceLimits& gpu_limits) {
  name_rules_ = limits.names;
  quota_.set_limits(limits_of_daemon(limits.per_uid));
  quota_.set_supply(limits.supply);
  for (auto& [name, device] : devices_.all()) {
    const bool is_host = &device.backend() == &dependencies_.host;
    device.set_limits(is_host ? DeviceLimits{limits.memory, limits.per_uid.bytes} : gpu_limits);
  }
}

void Broker::add_device(DeviceBackend& backend, const DeviceLimits& limits) {
  devices_.add(backend, limits);
}

// ---- Sessions.

absl::StatusOr<NewSession> Broker::open_session(const PeerIdentity& peer) {
  if (auto status = may_begin_new(); !status.ok()) return status;
  if (auto status = may_grow(peer.uid); !status.ok()) return status;
  if (auto status = session_ends_.may_begin_another(peer.uid); !status.ok()) return status;
  auto of_sessions = quota_.charge(peer.uid, Resource::kSessions, 1);
  if (!of_sessions.ok()) return of_sessions.status();
  auto descriptors = quota_.charge(peer.uid, Resource::kDescriptors, kSessionDescriptors);
  if (!descriptors.ok()) {
    return files_.going_of(peer.uid) == 0 ? descriptors.status() : files_are_going(peer.uid);
  }
  auto session = std::make_unique<Session>();
  session->id = next_session();
  session->peer = peer;
  session->since = dependencies_.clock.now();
  session->session_charge = *std::move(of_sessions);
  session->descriptors_charge = *std::move(descriptors);
  dependencies_.fill_random(session->token);
  const NewSession answer{session->id, session->token};
  sessions_.add(std::move(session));
  connections_.sessions_changed(peer.uid);
  tally_.session_opened();
  return answer;
}

// Those of sessions that there are stay theirs. Who meets a number again, after four thousand
// million others, has nothing left that goes by the old one: tokens differ.
SessionId Broker::next_session() {
  do {
    last_session_ = last_session_ < session_numbers_ ? last_session_ + 1 : 1;
  } while (sessions_.find(SessionId{last_session_}) != nullptr);
  return SessionId{last_session_};
}

absl::StatusOr<FileGrant> Broker::fetch_file(SessionId id, wire::FileId file, bool writable) {
  const Session* session = sessions_.find(id);
  assert(session != nullptr);
  if (!files_.knows(id, file)) {
    if (auto status = may_grow(session->peer.uid); !status.ok()) return status;
  }
  return files_.grant(file, session->peer, id, writable);
}

// Hang-up revokes what needs a call; its rows and its ownership stand until the process has exited,
// unless it said goodbye. Nor does the memory go that it has open: its streams may use that still.
bool Broker::hang_up(SessionId id, Farewell farewell) {
  Session* session = sessions_.find(id);
  assert(session != nullptr);
  session->connected = false;
  session->farewell = farewell;
  for (const ArrayId asked : session->asks) {
    if (Array* array = catalog_.find(asked)) writer_ownership_.cancel(*array, id);
  }
  const bool has_memory = !session->imported_memory.empty();
  if (farewell != Farewell::kGoodbye || has_memory || memberships_.in_use(*session)) return true;
  session_ends_.begin(*session, Departure::kLeft, "");
  return false;
}

void Broker::exited(SessionId id) {
  Session* session = sessions_.find(id);
  session_ends_.begin(*session, Departure::kExited,
                      death_of(*session, "its process was killed, or called _exit()"));
}

bool Broker::program_replaced(SessionId id) {
  Session* session = sessions_.find(id);
  assert(session != nullptr);
  const auto on_gpu = [&](const auto& membership) {
    const auto& [array, of_it] = membership;
    return memberships_.class_of(array, of_it).device != dependencies_.host.device();
  };
  const bool used_gpu =
      !session->imported_memory.empty() || std::ranges::any_of(session->memberships, on_gpu);
  if (used_gpu) return false;
  session_ends_.begin(*session, Departure::kExited,
                      death_of(*session, "its process runs another program"));
  return true;
}

// ---- Arrays.

absl::StatusOr<Session*> Broker::authenticate(std::span<const std::uint8_t> credential,
                                              uid_t uid) const {
  return sessions_.authenticate(credential, uid);
}

absl::Status Broker::may_begin_new() const {
  if (draining_) return shutting_down();
  return dependencies_.has_memory() ? absl::OkStatus() : out_of_own_memory();
}

// Who has little is let in: what is kept free is for such as he.
absl::Status Broker::may_grow(uid_t uid) {
  Account& account = quota_.account(uid);
  const std::uint64_t bytes = account.heap_to_look_for();
  if (bytes == 0) return absl::OkStatus();
  if (files_.reserve_kept(uid, 0) == wire::ReserveKept::kAll) {
    if (auto status = dependencies_.pages.has_room(bytes); !status.ok()) return status;
  }
  account.note_looked_for(bytes);
  return absl::OkStatus();
}

// An opened array's files are told of.
absl::Status Broker::may_open(const Session& session) {
  if (auto status = may_begin_new(); !status.ok()) return status;
  if (auto status = may_grow(session.peer.uid); !status.ok()) return status;
  return files_.may_pin(session.peer.uid);
}

absl::Status Broker::may_join(const Session& session, const Array* array) const {
  if (array != nullptr && session.memberships.contains(array->id)) return absl::OkStatus();
  return quota_.find(session.peer.uid)->may_spend(Resource::kOpenArrays, 1);
}

absl::StatusOr<Array*> Broker::readable(const PeerIdentity& viewer, const std::string& name) const {
  Array* array = catalog_.find(name);
  if (array == nullptr || !shows(viewer, *array)) return no_such_array(name, viewer.uid);
  return array;
}

absl::Status Broker::add_memory(const SegmentPool::Growth& growth,
                                absl::StatusOr<std::unique_ptr<SharedMemory>> memory) {
  return store_.add_memory(growth, std::move(memory));
}

absl::StatusOr<Broker::Creation> Broker::create(Session& session, const wire::ArraySpec& spec,
                                                bool exist_ok, SharedAttributes attributes,
                                                std::optional<uid_t> owner) {
  if (auto status = may_open(session); !status.ok()) return status;
  if (auto status = wire::validate(spec); !status.ok()) return status;
  if (owner && !exist_ok) return owner_without_exist_ok();
  if (attributes != nullptr) {
    if (auto status = wire::validate(*attributes); !status.ok()) return status;
  }
  if (devices_.find(spec.device) == nullptr) return no_such_device(spec.device, devices_.names());
  Array* existing = catalog_.find(spec.name);
  if (existing != nullptr && session_ends_.goes(*existing)) {
    session_ends_.end_now(*existing);
    existing = nullptr;
  }
  if (existing != nullptr) {
    wire::ArraySpec wanted = spec;
    wanted.strides_bytes = wire::strides_bytes_of(spec);
    wanted.max_slots = wire::max_slots_of(spec);
    wire::ArraySpec stands = existing->spec();
    stands.strides_bytes = wire::strides_bytes_of(stands);
    const bool readable = may_read(session.peer, existing->domain);
    // Of one that the caller may not read nothing else is told.
    if (!readable) return name_is_anothers(spec.name);
    if (!exist_ok) {
      return name_is_taken(*existing, existing->creator == session.id, wanted == stands);
    }
    if (owner && *owner != existing->domain.uid) return of_another_user(*existing, *owner);
    if (wanted != stands) return other_array(stands, wanted);
    if (auto status = may_join(session, existing); !status.ok()) return status;
    return join(session, *existing, false);
  }
  if (owner && *owner != session.peer.uid) {
    return cannot_create_for(spec.name, *owner, session.peer.uid);
  }
  if (auto status = name_rules_.may_create(session.peer, spec.name); !status.ok()) return status;
  if (auto status = may_join(session, nullptr); !status.ok()) return status;
  const AccessDomain domain{session.peer.uid, session.peer.gid, spec.mode};
  auto creation = store_.create(spec, domain, std::move(attributes));
  if (!creation.ok()) return creation.status();
  if (const auto* growth = std::get_if<SegmentPool::Growth>(&*creation)) return *growth;
  auto array = std::get<std::unique_ptr<Array>>(std::move(*creation));
  array->creator = session.id;
  if (spec.writer == wire::Writer::kExclusive) array->exclusive_to = session.id;
  session.created.insert(array->id);
  return enter(session, std::move(array));
}

Broker::Opened Broker::enter(Session& session, std::unique_ptr<Array> array) {
  array->created = dependencies_.clock.now();
  const Opened opened = join(session, catalog_.add(std::move(array)), true);
  name_board_.happened(opened.array->name);
  recorder_.created(*opened.array, session);
  return opened;
}

absl::StatusOr<Broker::Opened> Broker::open(Session& session, const std::string& name,
                                            std::optional<uid_t> owner, bool subscribes) {
  if (auto status = may_open(session); !status.ok()) return status;
  if (auto status = wire::validate_opened_name(name); !status.ok()) return status;
  auto array = readable(session.peer, name);
  if (!array.ok()) return array.status();
  if (owner && *owner != (*array)->domain.uid) return of_another_user(**array, *owner);
  if (auto status = may_join(session, *array); !status.ok()) return status;
  Opened opened = join(session, **array, false);
  if (subscribes) subscribe_with(session, opened);
  return opened;
}

void Broker::add_if_new(const Session& session, wire::FileId file,
                        std::vector<wire::FileId>& files) const {
  if (files.size() == wire::kMaxFetchedFiles || files_.knows(session.id, file)) return;
  if (std::ranges::find(files, file) != files.end()) return;
  files.push_back(file);
}

void Broker::subscribe_with(Session& session, Opened& opened) {
  const Array& array = *opened.array;
  if (!SessionRows::may_waste(session, array.domain)) return;
  const auto subscribed = subscribe(session, array.id);
  if (!subscribed.ok()) return;
  opened.subscribed = *subscribed;
  add_if_new(session, subscribed->row.file, opened.new_files);
  const wire::FileRange writer = writer_ownership_.current(array);
  add_if_new(session, writer.file, opened.new_files);
  files_.pin(writer.file, session.id, session.peer.uid);
  opened.writer = row_ref(writer);
}

absl::StatusOr<Broker::Creation> Broker::open_replica(Session& session, ArrayId id,
                                                      const std::string& device) {
  if (auto status = may_open(session); !status.ok()) return status;
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  Array& home = *member->array;
  if (home.withdrawn) return has_been_withdrawn(home);
  if (devices_.find(device) == nullptr) return no_such_device(device, devices_.names());
  if (auto status = may_join(session, nullptr); !status.ok()) return status;
  auto found = replicas_.find_or_make(home, device, session.peer);
  if (!found.ok()) return found.status();
  if (const auto* growth = std::get_if<SegmentPool::Growth>(&*found)) return *growth;
  if (Array** there = std::get_if<Array*>(&*found)) return join(session, **there, false);
  auto made = std::get<std::unique_ptr<Array>>(std::move(*found));
  made->creator = session.id;
  return enter(session, std::move(made));
}

absl::StatusOr<Broker::Opened> Broker::open_replica(Session& session, ArrayId id,
                                                    std::uint32_t number) {
  if (auto status = may_open(session); !status.ok()) return status;
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  Array* const replica = replicas_.find(*member->array, number);
  if (replica == nullptr) return no_such_replica(*member->array, number);
  if (auto status = may_join(session, replica); !status.ok()) return status;
  return join(session, *replica, false);
}

absl::Status Broker::write_elsewhere(Session& session, ArrayId id) {
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  const Array& replica = *member->array;
  if (!may_write(session.peer, replica.domain)) return may_not_write_to(replica, session.peer.uid);
  if (replica.withdrawn) return has_been_withdrawn(replica);
  return replicas_.write_elsewhere(replica);
}

Broker::Opened Broker::join(Session& session, Array& array, bool created) {
  Opened opened{&array, may_write(session.peer, array.domain), created};
  add_if_new(session, array.board_at.file, opened.new_files);
  if (wire::is_host(*array.kind)) {
    for (const wire::FileRange& slot : array.slots) {
      add_if_new(session, slot.file, opened.new_files);
    }
  }
  memberships_.join(session, array);
  return opened;
}

DeviceBackend& Broker::device_of(const Array& array) {
  return devices_.at(array.kind->device).backend();
}

absl::StatusOr<Broker::Subscribed> Broker::subscribe(Session& session, ArrayId id) {
  if (draining_) return shutting_down();
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  auto& [array, membership] = *member;
  if (array->withdrawn) return has_been_withdrawn(*array);
  if (!membership->reader_row) {
    auto taken = rows_.take(session, *membership, *array, RowKind::kReader, device_of(*array));
    if (!taken.ok()) return taken;
  }
  const Subscribed subscribed{row_ref(*membership->reader_row)};
  if (membership->entry == nullptr) {
    auto entry = store_.free_entry(*array);
    if (!entry.ok()) return entry.status();
    membership->entry = *entry;
    add_subscriber(*array->board, **entry, subscribed.row);
  }
  return subscribed;
}

absl::StatusOr<WriterAnswer> Broker::acquire_writer(Session& session, ArrayId id) {
  if (draining_) return shutting_down();
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  auto& [array, membership] = *member;
  if (!may_write(session.peer, array->domain)) return may_not_write_to(*array, session.peer.uid);
  if (array->withdrawn) return has_been_withdrawn(*array);
  if (auto status = writer_ownership_.may_ask(*array, session.id); !status.ok()) return status;
  if (!membership->writer_row) {
    auto taken = rows_.take(session, *membership, *array, RowKind::kWriter, device_of(*array));
    if (!taken.ok()) return taken;
  }
  if (auto status = store_.make_takeover(*array); !status.ok()) return status;
  const WriterAnswer answer = writer_ownership_.ask(*array, session.id, *membership->writer_row);
  if (answer.state == WriterAnswer::State::kGranted) {
    session.asks.erase(id);
  } else {
    session.asks.insert(id);
  }
  return answer;
}

absl::Status Broker::confirm_writer(Session& session, ArrayId id, std::uint64_t offer) {
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  auto status = writer_ownership_.confirm(*member->array, session.id, offer);
  if (status.ok()) session.asks.erase(id);
  return status;
}

absl::Status Broker::cancel_writer(Session& session, ArrayId id) {
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  writer_ownership_.cancel(*member->array, session.id);
  session.asks.erase(id);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<SegmentPool::Growth>> Broker::add_slot(Session& session, ArrayId id,
                                                                    std::uint32_t slots) {
  if (auto status = may_begin_new(); !status.ok()) return status;
  auto member = memberships_.find(session, id);
  if (!member.ok()) return member.status();
  Array& array = *member->array;
  if (array.withdrawn) return has_been_withdrawn(array);
  const std::size_t before = array.slots.size();
  auto growth = slot_growth_.add(array, session, slots);
  if (array.slots.size() > before) recorder_.grown(array, session, array.slots.size() - before);
  return growth;
}

uid_t Broker::payer_of(Session& session, std::optional<ArrayId> array) const {
  if (array) {
    if (auto member = memberships_.find(session, *array); member.ok()) {
      return member->array->domain.uid;
    }
  }
  return session.peer.uid;
}

absl::Status Broker::evict(const PeerIdentity& viewer, SessionId id) {
  Session* session = sessions_.find(id);
  const bool may =
      session != nullptr && !session->ending &&
      (viewer.uid == 0 || viewer.uid == session->peer.uid ||
       (!session->memberships.empty() && memberships_.all_are_of(*session, viewer.uid)));
  if (!may) return no_session_to_evict(id);
  if (std::exchange(session->evicted, true)) return absl::OkStatus();
  recorder_.evicted(*session, viewer, memberships_.bytes_in_use(*session));
  return absl::OkStatus();
}

std::uint32_t Broker::take_idle_slots(std::size_t most_looks) {
  std::uint32_t all = 0;
  ArrayId after = std::exchange(idle_slots_after_, ArrayId{0});
  for (std::size_t looks = 0; added_slots() != 0;) {
    Array* const array = catalog_.first_after(after);
    if (array == nullptr) break;
    if (looks >= most_looks) {
      idle_slots_after_ = after;
      break;
    }
    after = array->id;
    ++looks;
    if (array->rare().added.empty()) continue;
    looks += array->members.size();
    const std::uint32_t taken = slot_growth_.take_idle(*array);
    if (taken == 0) continue;
    all += taken;
    recorder_.shrunk(*array, taken);
  }
  return all;
}

absl::Status Broker::withdraw(const PeerIdentity& viewer, const std::string& name) {
  if (auto status = wire::validate_opened_name(name); !status.ok()) return status;
  auto array = readable(viewer, name);
  if (!array.ok()) return array.status();
  if (!may_write(viewer, (*array)->domain)) return may_not_withdraw(**array, viewer.uid);
  if ((*array)->rare().home && !replicas_.may_let_go(**array))
    return has_what_its_home_lacks(**array);
  recorder_.withdrawn(**array, viewer);
  reclaimer_.withdraw(**array);
  return absl::OkStatus();
}

bool Broker::exists(const PeerIdentity& viewer, const std::string& name) const {
  return readable(viewer, name).ok();
}

absl::StatusOr<NameBoard::Count> Broker::creations(const std::string& name) {
  if (draining_) return shutting_down();
  return name_board_.count_of(name);
}

void Broker::drain() {
  draining_ = true;
  for (Array* array : catalog_.all()) set_draining(*array->board);
  name_board_.wake_all();
}

bool Broker::in_use() const {
  return std::ranges::any_of(sessions_.all(),
                             [&](const Session* s) { return memberships_.in_use(*s); });
}

}  // namespace memlease::server
