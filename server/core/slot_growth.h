// When an array gets a slot more, and when it is taken away: readers may hold all that there are
// and must not stop the writer for that. Looks at rows of clients, which may say what they like: a
// writer that lies gets slots that its own array is charged for, a reader that lies keeps one that
// it could hold as well. Not thread-safe.
//
// A slot is where it is from its addition to its end, so that nobody who holds one has to look
// whether it has moved. The last one goes first. docs/decisions/0017-added-slots.md says why.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "server/core/array_store.h"
#include "server/core/session_rows.h"
#include "server/core/session_table.h"
#include "server/core/writer_ownership.h"

namespace memlease::server {

class SlotGrowth {
 public:
  SlotGrowth(ArrayStore& store, const SessionRows& rows, const SessionTable& sessions,
             const WriterOwnership& writer_ownership)
      : store_(store), rows_(rows), sessions_(sessions), writer_ownership_(writer_ownership) {}

  // For the session that writes the array and found no slot among `slots`. OK if there is one more
  // now, or the memory that must be added before this is called again. kBusy if it need not have
  // one, kNoFreeSlot if it may not, and the errors of ArrayStore::add_slot.
  absl::StatusOr<std::optional<SegmentPool::Growth>> add(Array& array, const Session& writer,
                                                         std::uint32_t slots);
  // Takes away the added slots that nobody uses and that nobody has written since the last call.
  // How many.
  std::uint32_t take_idle(Array& array);

 private:
  // Bit s: some of them hold slot s; or a device may go on reading it for one that did.
  struct Holders {
    std::uint64_t evicted = 0;
    std::uint64_t others = 0;
    std::uint64_t at_work = 0;
    bool hold(const Array& array, std::uint32_t slot) const;
  };
  Holders holders(const Array& array) const;
  // More than spec allows: those that nobody but evicted sessions holds.
  static std::uint32_t most_slots(const Array& array, const Holders& holders);
  bool used(const Array& array, const Holders& holders, std::uint32_t slot) const;

  ArrayStore& store_;
  const SessionRows& rows_;
  const SessionTable& sessions_;
  const WriterOwnership& writer_ownership_;
};

}  // namespace memlease::server
