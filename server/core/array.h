// One array as the daemon knows it. The truth is here; the board shows a part of it to clients.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "server/core/access.h"
#include "server/core/clock.h"
#include "server/core/event_set.h"
#include "server/core/quota.h"
#include "server/core/row_place.h"
#include "wire/array_spec.h"
#include "wire/attributes.h"
#include "wire/board.h"
#include "wire/ids.h"
#include "wire/recent_kinds.h"

namespace memlease::server {

// Somebody asked for writer ownership while another one may still be writing.
struct PendingMove {
  wire::SessionId to{0};
  std::uint64_t offer = 0;     // unique in the daemon's run
  bool due = false;            // the writer was not at work when somebody asked
  bool offered = false;        // the old row stands still, `to` may copy it
  std::uint64_t since_ms = 0;  // monotonic; once it is due, since then
};

// Who waits behind that one, in the order in which they asked first.
struct WriterQueue {
  std::vector<wire::SessionId> waiting;
  std::uint64_t turn_ms = 0;  // monotonic: since when it is the first one's turn to ask
  // The last move: when, and the highest number that its row had then.
  std::uint64_t moved_ms = 0;
  std::uint64_t moved_highest = 0;
};

using wire::SharedAttributes;

// As many as an array without attributes has.
using Charges = absl::InlinedVector<Charge, 2>;

// There may be a million of them: what most arrays do not have takes no room here (rare()).
struct Array {
  // Of each added slot: what keeps it charged, and the slot word that it had when the daemon looked
  // last and found it unused.
  struct Added {
    Charge bytes_charge;
    std::optional<std::uint64_t> idle_word;
  };
  struct Rare {
    // Constant after creation.
    // Of a replica: the array whose versions it has, and its bit in that one's board.
    std::optional<wire::ArrayId> home;
    std::uint32_t replica_number = 0;
    SharedAttributes attributes;  // null = none; of a replica: its home's
    std::uint64_t attribute_bytes = 0;
    EventSet write_events;  // a slot's last publish or drop, whoever wrote

    // State.
    std::vector<Added> added;
    std::vector<wire::FileRange> chunks;  // further subscriber chunks
    std::vector<wire::ArrayId> replicas;  // that there are; none has replicas of its own
  };
  // What an array does not have is there as empty.
  const Rare& rare() const {
    static const Rare kNone;
    return rare_ == nullptr ? kNone : *rare_;
  }
  bool has_rare() const { return rare_ != nullptr; }
  Rare& make_rare() {
    if (rare_ == nullptr) rare_ = std::make_unique<Rare>();
    return *rare_;
  }

  // Constant after creation.
  wire::ArrayId id{0};
  std::string name;
  wire::SharedKind kind;  // with max_slots as a number
  wire::ArraySpec spec() const { return {*kind, name}; }
  AccessDomain domain;
  wire::SessionId creator{0};
  Moment created;
  std::uint64_t slot_bytes = 0;
  // What its kind allows: rows and the record are laid out for it.
  wire::SlotLayout layout() const { return {kind->slots, kind->max_slots}; }
  wire::FileRange board_at;
  wire::BoardRecord* board = nullptr;
  Charges charges;  // of the name, the attributes and the regular slots

  // State.
  // That exist: the regular ones, then those added.
  absl::InlinedVector<wire::FileRange, wire::kDefaultSlots> slots;
  absl::InlinedVector<wire::SessionId, 4> members;
  // Of an array with an exclusive writer: the session that it is, or is kept for; 0 = whoever asks
  // next becomes it.
  wire::SessionId exclusive_to{0};
  wire::SessionId writer{0};  // 0: the takeover row counts
  // What is there when nobody is the writer: first a row of zeros, which the domain's arrays share,
  // and from a writer's end on the array's own, which is made for the first who asks to write.
  RowPlace takeover_at;
  RowPlace own_takeover;
  wire::WriterRow* takeover = nullptr;
  std::unique_ptr<PendingMove> pending;  // nullptr: nobody has asked
  std::unique_ptr<WriterQueue> queue;    // nullptr: nobody waits behind that one
  bool withdrawn = false;
  std::uint64_t tallied_version = 0;  // as Tally has it
  std::uint64_t tallied_empty_writes = 0;
  std::uint64_t tallied_copied_versions = 0;

 private:
  std::unique_ptr<Rare> rare_;
};

// What it costs to tell who uses it, while all others wait: at the array, and at each member.
inline std::size_t looks_at(const Array& array) { return 1 + array.members.size(); }

}  // namespace memlease::server
