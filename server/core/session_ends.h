// The ends of sessions, worked off in slices of a bounded number of arrays, so that a process with
// many arrays that goes keeps nobody else waiting: the caller lets others have their turns between
// two slices.
//
// What holds from the first slice on: the session can do nothing any more and counts in no quota of
// sessions. Nobody finds an array by its name that goes with the session (goes()), and the name can
// be used for a new array, which ends the old one at once. What holds of each array once its slice
// has come: another process can become its writer, nobody waits for what the session held, and its
// bytes are back, if it goes and nobody else has it open; on a GPU once the last slice has come. In
// between the session counts as a member that does nothing. The slices after the last array end
// what it was reading on GPUs, for which others' streams may wait.
//
// Several ends take turns, slice by slice: first those who pay for them, then each one's own, so
// that nobody waits for how many another has. Called by Broker. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/core/catalog.h"
#include "server/core/connection_charges.h"
#include "server/core/device_table.h"
#include "server/core/file_table.h"
#include "server/core/imports.h"
#include "server/core/quota.h"
#include "server/core/reclaimer.h"
#include "server/core/recorder.h"
#include "server/core/replicas.h"
#include "server/core/session_rows.h"
#include "server/core/session_table.h"
#include "server/core/slot_board.h"
#include "server/core/tally.h"

namespace memlease::server {

class SessionEnds {
 public:
  // About half a millisecond of work. An array that may end, and many have open, counts for
  // several: each of them is told of its end.
  static constexpr std::size_t kArraysPerSlice = 64;
  static constexpr std::size_t kMembersLikeAnArray = 8;
  static constexpr std::size_t kSessionLikeArrays = 8;
  // Of one payer; 512 is the quota of sessions, which those that end are not in.
  static constexpr std::size_t kMostUnderWay = 1024;

  struct Parts {
    Quota& quota;
    Catalog& catalog;
    SessionTable& sessions;
    SessionRows& rows;
    FileTable& files;
    ConnectionCharges& connections;
    DeviceTable& devices;
    Replicas& replicas;
    Reclaimer& reclaimer;
    Imports& imports;
    Recorder& recorder;
    Tally& tally;
  };
  explicit SessionEnds(const Parts& parts, std::size_t arrays_per_slice = kArraysPerSlice)
      : parts_(parts), arrays_per_slice_(arrays_per_slice) {}

  // Once for each session. `death`: what has ended its process; empty: it went by itself. Takes the
  // first slice: a session of few arrays has gone when this returns.
  void begin(Session& session, Departure how, std::string death);
  // Takes the next slice, of several ends if they are small. False: no end was under way.
  bool step();
  bool under_way() const { return !ends_.empty(); }
  // A session of the uid's. kBusy: of whoever pays for it kMostUnderWay are ending.
  absl::Status may_begin_another(uid_t uid) const;

  // Whether it ends with its creator, whose end has begun.
  bool goes(const Array& array) const;
  // Ends one that goes before its turn. Whether there is a reclaim to tell of shows in its turn.
  void end_now(Array& array);

 private:
  struct End {
    wire::SessionId session{0};
    Departure how = Departure::kLeft;
    std::string death;
    Recorder::Reclaimed reclaimed;
  };

  // False: that was its last one. Takes from `budget` what it costs, of which something is left.
  bool slice(End& end, std::size_t& budget);
  std::vector<wire::ArrayId> next_arrays(const Session& session, std::size_t& budget) const;
  void end_array(Session& session, wire::ArrayId id, End& end);
  void withdraw(Array& array, const Session& creator, Departure how);
  // Of so many rows as there may be arrays in a slice. True: those were the last ones.
  bool release_reads(Session& session);
  // Empty: nothing was lost with it. Who went by itself can only have left what it had in use.
  std::string reclaim_reason(const Session& session, const Array& array, bool died) const;
  void finish(Session& session, const End& end);

  const Parts parts_;
  const std::size_t arrays_per_slice_;
  std::map<uid_t, std::deque<End>> ends_;  // by who pays; of each at least one
  uid_t last_payer_ = 0;                   // whose turn was
};

}  // namespace memlease::server
