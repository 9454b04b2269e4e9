// Departures by numbers, so that one whose answer did not come can be told to the daemon again,
// which does none twice, whatever has been opened in between. Calls nobody. Thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "client/session/control_port.h"
#include "wire/mutex.h"

namespace memlease::internal {

class DepartureNumbers {
 public:
  struct Told {
    std::vector<Departure> departures;
    std::uint64_t answered_below = 0;
  };
  // What is told now: these, each with a number, which it keeps. Of the numbers without an answer
  // the last wire::kDeparturesInDoubt count: what is older, and refused still, is not told any
  // more, as the daemon takes it back when the session ends.
  Told begin(std::span<const Departure> departures);
  // They need not be told again.
  void end(std::span<const Departure> told);

 private:
  wire::Mutex mutex_;
  std::uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::uint64_t> in_doubt_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
