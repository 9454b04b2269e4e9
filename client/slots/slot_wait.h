// Port of the slot protocol: what a write does while no slot is free. Implemented by WriteWait
// (client/arrays/begin_write.cc), in tests by SlotWaitOf (tests/support/slot_wait_of.h). Called by
// SlotWriter::begin(), in its thread, with the write flagged: an implementation begins no other
// write of the array.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "wire/futex.h"

namespace memlease::internal {

class SlotWait {
 public:
  virtual ~SlotWait() = default;
  // A reader whose row is not mapped counts as holding every slot, and none is free because of
  // that. True if there were rows to map: then the slots are looked at again.
  virtual bool map_rows() = 0;
  // Still none is free, and the array may have more than these `slots`: asked once, before the
  // first sleep, for one more. kStop: the write gives up at once.
  enum class Grown { kAdded, kRefused, kStop };
  virtual Grown grow(std::uint32_t slots) = 0;
  // Sleeps on the counts, for `longest` at most. False: the write gives up.
  virtual bool sleep_on(const std::vector<wire::FutexWait>& counts,
                        std::chrono::nanoseconds longest) = 0;
  // That slot is free, marked and not yet handed out: fetches what it takes to write there. False:
  // the write gives up, and the slot keeps its version.
  virtual bool prepare(std::uint32_t slot) = 0;
};

}  // namespace memlease::internal
