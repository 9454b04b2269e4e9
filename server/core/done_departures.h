// Which of a session's departures (Broker::leave_once) have been done. Its client numbers them, and
// sends one again whose answer did not come: what has been done is not done again, though the array
// may have been opened again since, or the first call may come after the second. Not thread-safe.
#pragma once

#include <cstdint>
#include <set>

#include "wire/ids.h"

namespace memlease::server {

class DoneDepartures {
 public:
  bool contains(std::uint64_t number) const {
    return number < answered_below_ || done_.contains(number);
  }
  // Of one that it does not contain: no session makes its daemon keep more than so many.
  bool has_room_for(std::uint64_t number) const {
    return number - answered_below_ < wire::kDeparturesInDoubt;
  }
  void add(std::uint64_t number) { done_.insert(number); }
  // Those below are done as far as the client is concerned, whoever may still ask for one.
  void note_answered(std::uint64_t below) {
    if (below <= answered_below_) return;
    answered_below_ = below;
    done_.erase(done_.begin(), done_.lower_bound(below));
  }

 private:
  std::uint64_t answered_below_ = 1;
  std::set<std::uint64_t> done_;
};

}  // namespace memlease::server
