// The ends of arrays: who uses one still, who is let go, and when its bytes are given back. A
// withdrawn array lives until its last member is gone. Called by Broker. Not thread-safe.
#pragma once

#include "server/core/array.h"
#include "server/core/array_store.h"
#include "server/core/catalog.h"
#include "server/core/recorder.h"
#include "server/core/replicas.h"
#include "server/core/session_rows.h"
#include "server/core/session_table.h"
#include "server/core/slot_board.h"
#include "server/core/tally.h"
#include "server/core/writer_ownership.h"

namespace memlease::server {

class Reclaimer {
 public:
  struct Parts {
    Catalog& catalog;
    SessionTable& sessions;
    SessionRows& rows;
    ArrayStore& store;
    WriterOwnership& ownership;
    Replicas& replicas;
    Recorder& recorder;
    Tally& tally;
  };
  explicit Reclaimer(const Parts& parts) : parts_(parts) {}

  // Holds a slot or writes, or has left GPU work unfinished, of which whoever comes next would not
  // know.
  bool in_use(const Session& session, const Membership& membership, const Array& array) const;
  // Its name is free, and its replicas' are; members stay until they are done. A repeat does
  // nothing.
  void withdraw(Array& array);
  // The session uses the array no more: its ownership, its entry, then the array if it was the
  // last.
  void detach(Session& session, Array& array, Departure how);
  // What no call tells of. Members of withdrawn arrays on the host that hold nothing any more are
  // none from now on: the end of a lease calls nobody. (What a device has open its process closes
  // first, and then says so.) Replicas that nobody has open go once their home has all they have.
  // True while there may be more to look for. After so many looks (looks_at()) the round goes on
  // with the next call.
  bool give_back_unused(std::size_t most_looks);
  bool looks_for_unused() const { return unused_after_ != wire::ArrayId{0}; }

 private:
  // That is withdrawn, or a replica; nullptr: there is none with a higher number.
  Array* first_to_look_at_after(wire::ArrayId id) const;
  void detach_unused(Array& array);
  void destroy_if_unused(Array& array);

  const Parts parts_;
  wire::ArrayId unused_after_{0};  // where the round goes on; 0: none is under way
};

}  // namespace memlease::server
