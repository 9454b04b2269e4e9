// The daemon's core: what clients ask for, in terms of sessions and arrays. Orders the modules
// beside it and decides nothing that one of them could decide. No transport, no threads, no locks:
// Daemon calls it under its one mutex. Every call is complete or has changed nothing.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/array_store.h"
#include "server/core/catalog.h"
#include "server/core/clock.h"
#include "server/core/connection_charges.h"
#include "server/core/device_table.h"
#include "server/core/file_table.h"
#include "server/core/imports.h"
#include "server/core/memberships.h"
#include "server/core/name_board.h"
#include "server/core/name_rules.h"
#include "server/core/quota.h"
#include "server/core/reclaimer.h"
#include "server/core/recorder.h"
#include "server/core/replicas.h"
#include "server/core/segment_pool.h"
#include "server/core/session_ends.h"
#include "server/core/session_rows.h"
#include "server/core/session_table.h"
#include "server/core/slot_growth.h"
#include "server/core/tally.h"
#include "server/core/writer_ownership.h"
#include "wire/array_spec.h"

namespace memlease::server {

class Broker {
 public:
  struct Dependencies {
    DeviceBackend& host;
    PageSource& pages;
    const Clock& clock;
    std::function<void(std::span<std::uint8_t>)> fill_random;
    Disposal dispose;
    // Whether the daemon has memory of its own for anything new.
    std::function<bool()> has_memory = [] { return true; };
    PayerOf payer_of = pays_for_itself;
  };
  struct Limits {
    SegmentPool::Limits memory;
    Usage per_uid;
    std::uint32_t file_numbers = wire::kMaxFileId;
    std::uint32_t session_numbers = std::numeric_limits<std::uint32_t>::max();
    std::size_t arrays_per_slice = SessionEnds::kArraysPerSlice;  // of the ends of sessions
    NameRules names = {};
    Supply supply = {};
  };
  Broker(const Dependencies& dependencies, const Limits& limits);
  // Who has something open goes on with it.
  ~Broker() { files_.leave_to_clients(); }
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;
  // For what is asked for from now on: nobody loses what they have. Numbers and arrays_per_slice
  // stay as they are.
  void set_limits(const Limits& limits, const DeviceLimits& gpu_limits);

  // ---- Sessions (called for the attach channel).
  absl::StatusOr<NewSession> open_session(const PeerIdentity& peer);
  absl::StatusOr<FileGrant> fetch_file(wire::SessionId id, wire::FileId file,
                                       bool writable = false);
  // True if exited() is still awaited.
  bool hang_up(wire::SessionId id, Farewell farewell);
  void exited(wire::SessionId id);
  // The same for a process that runs another program now, which has nothing mapped any more.
  // False, and nothing happens, where it has used a GPU: whether the driver has let go shows at its
  // exit alone.
  bool program_replaced(wire::SessionId id);
  // Works a further part of sessions' ends off, of which the calls above take the first one: see
  // server/core/session_ends.h for what holds in between. False: there is no more.
  bool work_off_ends() { return session_ends_.step(); }
  bool sessions_are_ending() const { return session_ends_.under_way(); }

  // ---- Control connections. kQuotaExceeded.
  absl::Status connected(uid_t uid) { return connections_.connected(uid); }
  void disconnected(uid_t uid) { connections_.disconnected(uid); }

  // ---- Arrays (called for Control; `session` from authenticate()).
  absl::StatusOr<Session*> authenticate(std::span<const std::uint8_t> credential, uid_t uid) const;
  struct Subscribed {
    wire::RowRef row;
  };
  struct Opened {
    const Array* array = nullptr;
    bool may_write = false;
    bool created = false;
    std::optional<Subscribed> subscribed = std::nullopt;  // of open() alone
    wire::RowRef writer = {};                             // then: the row that counts now
    // What it takes to read the array, as far as the session did not know of it before. Of a
    // device's memory there are no files.
    std::vector<wire::FileId> new_files = {};
  };
  // The array, or memory that must be made without the core and handed to add_memory() before this
  // is called again.
  using Creation = std::variant<Opened, SegmentPool::Growth>;
  // `attributes`: of a new array; one that exists keeps its own. Null = none. `owner`: whose array
  // it must be, with exist_ok; kDenied if it is, or would be, another user's.
  absl::StatusOr<Creation> create(Session& session, const wire::ArraySpec& spec, bool exist_ok,
                                  SharedAttributes attributes = nullptr,
                                  std::optional<uid_t> owner = {});
  // A GPU; the host is there from the start. The backend outlives this.
  void add_device(DeviceBackend& backend, const DeviceLimits& limits);
  bool has_device(std::string_view device) { return devices_.find(device) != nullptr; }
  absl::Status add_memory(const SegmentPool::Growth& growth,
                          absl::StatusOr<std::unique_ptr<SharedMemory>> memory);
  // After create() has had what add_memory() brought: nobody wants the rest.
  void return_surplus(std::string_view device) { devices_.at(device).segments.return_surplus(); }
  // Also of a replica that there is, by its own name. `owner`: as above. `subscribes`: subscribe()
  // is done with it, where a row that is never used costs little: not for the last ones of very
  // many arrays. It does not fail for that.
  absl::StatusOr<Opened> open(Session& session, const std::string& name,
                              std::optional<uid_t> owner = {}, bool subscribes = false);
  // Of an array that the session has open: the replica on a device, made unless it is there, which
  // only those may do who may write; or the one of a number.
  absl::StatusOr<Creation> open_replica(Session& session, wire::ArrayId id,
                                        const std::string& device);
  absl::StatusOr<Opened> open_replica(Session& session, wire::ArrayId id, std::uint32_t number);
  // Versions are about to be written on this replica that its home does not have.
  absl::Status write_elsewhere(Session& session, wire::ArrayId id);
  absl::StatusOr<Subscribed> subscribe(Session& session, wire::ArrayId id);
  absl::StatusOr<WriterAnswer> acquire_writer(Session& session, wire::ArrayId id);
  absl::Status confirm_writer(Session& session, wire::ArrayId id, std::uint64_t offer);
  absl::Status cancel_writer(Session& session, wire::ArrayId id);
  // For a writer that knows of `slots` slots and found all held; see SlotGrowth::add. The memory
  // that must be added first, if some must.
  absl::StatusOr<std::optional<SegmentPool::Growth>> add_slot(Session& session, wire::ArrayId id,
                                                              std::uint32_t slots);
  // Who pays for memory that the session's calls make: for this array, or one of its own.
  uid_t payer_of(Session& session, std::optional<wire::ArrayId> array) const;
  // Takes `opens` of the session's opens back; with the last one it is no member any more.
  absl::Status leave(Session& session, wire::ArrayId id, std::uint32_t opens) {
    return memberships_.leave(session, id, opens);
  }
  // The same under a number of the client's, by which it is done once, however often it is asked
  // for; 0: it has none. kInvalidArgument, too, for one too far above those without an answer.
  absl::Status leave_once(Session& session, wire::ArrayId id, std::uint32_t opens,
                          std::uint64_t number) {
    return memberships_.leave_once(session, id, opens, number);
  }

  // What the session holds keeps no array from getting slots any more; its connection is the
  // caller's to end. kNotFound, also for one that the viewer may not evict: a session may be ended
  // by its own uid, and by the owner of all arrays that it has open.
  absl::Status evict(const PeerIdentity& viewer, wire::SessionId id);
  // Takes away added slots that nobody uses and that have not been written since they were looked
  // at before. How many. After so many looks (looks_at()) the round goes on with the next call.
  std::uint32_t take_idle_slots(std::size_t most_looks = ~std::size_t{0});
  bool looks_for_idle_slots() const { return idle_slots_after_ != wire::ArrayId{0}; }
  // Reclaimer's; every second.
  bool give_back_unused(std::size_t most_looks = ~std::size_t{0}) {
    return reclaimer_.give_back_unused(most_looks);
  }
  bool looks_for_unused() const { return reclaimer_.looks_for_unused(); }
  std::uint64_t added_slots() const { return store_.added_slots(); }
  const FileTable& files() const { return files_; }

  // ---- For Control and Admin: `viewer` is who asks.
  // A replica's name: kBusy while its home lacks what it has.
  absl::Status withdraw(const PeerIdentity& viewer, const std::string& name);
  bool exists(const PeerIdentity& viewer, const std::string& name) const;
  // What whoever waits for the name sleeps on until he looks again; see NameBoard.
  absl::StatusOr<NameBoard::Count> creations(const std::string& name);
  // Whether the viewer finds the array, which has a name, by it.
  bool shows(const PeerIdentity& viewer, const Array& array) const {
    return may_read(viewer, array.domain) && !session_ends_.goes(array);
  }

  // No new arrays, opens and leases from now on.
  void drain();
  bool draining() const { return draining_; }
  // Does any session hold a slot or write now?
  bool in_use() const;
  // Nothing would be lost by ending now.
  bool idle() const { return sessions_.size() == 0 && catalog_.size() == 0; }

  // For people alone: the daemon does without a mechanism from now on, or has it again.
  void mechanism_changed(MechanismChange change) { recorder_.mechanism_changed(std::move(change)); }
  // What all these calls have done that people want to know.
  const History& history() const { return recorder_.history(); }
  const Imports& imports() const { return imports_; }
  const Catalog& catalog() const { return catalog_; }
  const SessionTable& sessions() const { return sessions_; }
  const SessionRows& rows() const { return rows_; }
  const WriterOwnership& writer_ownership() const { return writer_ownership_; }
  const DeviceTable& devices() const { return devices_; }
  const Device& host() const { return devices_.all().at(dependencies_.host.device()); }
  const Quota& quota() const { return quota_; }
  // Also for what is charged without the core: Account is thread-safe.
  Account& account(uid_t uid) { return quota_.account(uid); }
  // What there has been, as of the last looks; look() takes the next one.
  const Totals& totals() const { return tally_.totals(); }
  void look(Array& array) { tally_.look(array, writer_ownership_.current_row(array)); }
  void look(Session& session) { tally_.look(session); }

 private:
  friend class Auditor;  // server/core/audit.h
  absl::Status may_begin_new() const;
  // Whether there is room for what the daemon's heap has of this uid's, and will have.
  absl::Status may_grow(uid_t uid);
  absl::Status may_open(const Session& session);
  // One array more that it has open; `array`: one that it may have open already.
  absl::Status may_join(const Session& session, const Array* array) const;
  wire::SessionId next_session();
  absl::StatusOr<Array*> readable(const PeerIdentity& viewer, const std::string& name) const;
  DeviceBackend& device_of(const Array& array);
  Opened join(Session& session, Array& array, bool created);
  void subscribe_with(Session& session, Opened& opened);
  void add_if_new(const Session& session, wire::FileId file,
                  std::vector<wire::FileId>& files) const;
  // One that has just been made, into the catalog; its maker is its first member.
  Opened enter(Session& session, std::unique_ptr<Array> array);

  const Dependencies dependencies_;
  NameRules name_rules_;
  Quota quota_;
  const std::uint32_t session_numbers_;
  ConnectionCharges connections_;
  FileTable files_;
  Tally tally_;
  Recorder recorder_;
  DeviceTable devices_;
  ArrayStore store_;
  Catalog catalog_;
  SessionTable sessions_;
  SessionRows rows_;
  WriterOwnership writer_ownership_;
  SlotGrowth slot_growth_;
  Replicas replicas_;
  Reclaimer reclaimer_;
  Memberships memberships_;
  Imports imports_;
  SessionEnds session_ends_;
  NameBoard name_board_;
  std::uint32_t last_session_ = 0;
  wire::ArrayId idle_slots_after_{0};  // where take_idle_slots() goes on; 0: none is under way
  bool draining_ = false;
};

}  // namespace memlease::server
