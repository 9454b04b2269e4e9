// Which of a session's departures (Memberships::leave_once) have been done. Its client numbers
// them, and sends one again whose answer did not come: what has been done is not done again, though
// the array may have been opened again since, or the first call may come after the second. As large
// for every client, whatever it numbers. Not thread-safe.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "wire/ids.h"

namespace memlease::server {

class DoneDepartures {
 public:
  bool contains(std::uint64_t number) const {
    return number < answered_below_ || (has_room_for(number) && done_.test(place_of(number)));
  }
  // Of one that it does not contain: no session makes its daemon keep more than so many.
  bool has_room_for(std::uint64_t number) const {
    return number - answered_below_ < wire::kDeparturesInDoubt;
  }
  // One that it has room for.
  void add(std::uint64_t number) { done_.set(place_of(number)); }
  // Those below are done as far as the client is concerned, whoever may still ask for one.
  void note_answered(std::uint64_t below) {
    if (below <= answered_below_) return;
    const std::uint64_t answered = std::min(below - answered_below_, wire::kDeparturesInDoubt);
    for (std::uint64_t i = 0; i < answered; ++i) done_.reset(place_of(answered_below_ + i));
    answered_below_ = below;
  }

 private:
  static std::size_t place_of(std::uint64_t number) { return number % wire::kDeparturesInDoubt; }

  std::uint64_t answered_below_ = 1;
  std::bitset<wire::kDeparturesInDoubt> done_;  // from answered_below_ on, in turn
};

}  // namespace memlease::server
