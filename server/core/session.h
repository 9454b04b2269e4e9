// One client process as the daemon knows it, from its attach until nothing of it is left: it
// outlives its connection where its memory is still mapped.
//
// Not thread-safe: a plain record of the core, which Daemon calls under its one mutex. A pointer to
// one is good until that is unlocked, as another thread may end the session then. Broker
// makes it, SessionTable owns it at one address, SessionEnds erases it; the modules beside them
// change the members that are theirs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "server/core/clock.h"
#include "server/core/done_departures.h"
#include "server/core/event_set.h"
#include "server/core/page_allocator.h"
#include "server/core/quota.h"
#include "server/core/row_place.h"
#include "server/core/session_host.h"
#include "wire/board.h"
#include "wire/ids.h"

namespace memlease::server {

enum class RowKind : std::uint8_t { kReader, kWriter };

// Rows are used again within the session and the access domain, for arrays of as many slots only:
// a thread that comes late with an old handle may still count a reader row up and down, which then
// does no harm. For arrays of the same device only, as a row has events or has none.
struct RowClass {
  AccessDomain domain;
  std::string device;
  std::uint32_t slots = 0;  // that they have room for
  friend bool operator==(const RowClass&, const RowClass&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const RowClass& c) {
    return H::combine(std::move(h), c.domain, c.device, c.slots);
  }
};

struct FreeRows {
  std::vector<wire::FileRange> readers;
  std::vector<wire::FileRange> writers;
  std::vector<wire::FileRange>& of(RowKind kind) {
    return kind == RowKind::kReader ? readers : writers;
  }
};

// What a session has of one array. Rows stay its own until it leaves or exits, even where the array
// has gone meanwhile; without rows it goes with the array.
struct Membership {
  RowPlace reader_row;
  RowPlace writer_row;
  const RowClass* row_class = nullptr;  // of its rows, among Session::free_rows
  wire::Word* entry = nullptr;          // on the board; nullptr: not subscribed (any more)
  Moment since;
  Charge charge;
  std::uint32_t opens = 0;
};

struct Session {
  wire::SessionId id{0};
  PeerIdentity peer;
  SessionToken token{};
  Moment since;
  Charge session_charge;
  Charge descriptors_charge;
  DoneDepartures done_departures;

  // What goes through arrays one by one does so in the order of their ids, on every run the same.
  absl::btree_set<wire::ArrayId> created;  // of those that still exist
  bool connected = true;                   // the attach connection stands, so the token counts
  Farewell farewell = Farewell::kNone;
  bool evicted = false;  // what it holds takes nobody's share of slots
  // It had an array of another user's open than who asked last whether he may evict it.
  wire::ArrayId not_of_viewer{0};
  bool ending = false;  // SessionEnds works it off
  absl::btree_map<wire::ArrayId, Membership> memberships;
  absl::btree_set<wire::ArrayId> asks;  // whose writer it asked to become, and is not yet
  absl::flat_hash_map<AccessDomain, std::unique_ptr<PageAllocator>> pages;
  absl::flat_hash_map<wire::FileId, wire::SessionSums> tallied;  // of its pages, as Tally has it
  // Of each class of which it has had a row.
  absl::node_hash_map<RowClass, FreeRows> free_rows;
  // Of its reader rows on devices that have events, by the row's place.
  absl::flat_hash_map<std::uint64_t, EventSet> read_events;
  // What it may have open by handle: no memory goes before that is closed.
  absl::flat_hash_map<wire::FileId, std::shared_ptr<SharedMemory>> imported_memory;
};

}  // namespace memlease::server
