// A writer and reader threads at full speed on one array, with every byte checked. What the
// protocol promises shows as zeros in the result; a control that breaks a rule must not get them.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/client/slots/slot_world.h"

namespace memlease::testing {

struct RaceResult {
  std::uint64_t published = 0;
  std::uint64_t reads = 0;
  std::uint64_t torn = 0;          // bytes that are not of the version that was acquired
  std::uint64_t backwards = 0;     // a current version below an earlier one
  std::uint64_t lost_wakeups = 0;  // a sleep that ended by its time limit alone
};

struct RaceOptions {
  // The writer goes on until there are as many of both.
  std::uint64_t versions = 100'000;
  std::uint64_t reads = 100'000;
  std::vector<std::uint32_t> rows;  // one thread for each, reading by that row
  bool sleep = true;                // readers that wait for a version; else they spin
  bool stop_when_torn = false;
};

RaceResult race(SlotWorld& world, const RaceOptions& options);

}  // namespace memlease::testing
