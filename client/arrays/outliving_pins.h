// The pins of an array of the host that have outlived their leases, where release_views() finds
// them. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "client/arrays/slot_pages.h"
#include "client/session/mapped_ranges.h"
#include "wire/mutex.h"

namespace memlease::internal {

// What a pin holds, and where its views look.
struct PinnedSlot {
  enum class State : std::uint8_t { kHolds, kEnds, kReleased };
  const std::uint32_t slot;
  std::byte* const data;
  ProtectedPages pages = {};  // for as long as the pin has the slot
  // From kHolds to one of the others: whoever sets it lets go of the slot.
  std::atomic<State> state{State::kHolds};
  std::shared_ptr<MappedRanges> copies = {};  // with kReleased: where its views look from then on
  std::uint64_t number = 0;                   // in the table; 0: it has not outlived its lease
};

class OutlivingPins {
 public:
  // Its lease has ended. It is removed before it gives up its slot.
  void add(PinnedSlot& pin) ABSL_LOCKS_EXCLUDED(mutex_);
  void remove(const PinnedSlot& pin) ABSL_LOCKS_EXCLUDED(mutex_);

  struct Found {
    std::uint64_t number = 0;
    std::uint32_t slot = 0;
    std::byte* data = nullptr;
    std::shared_ptr<MappedRanges> ranges;
  };
  // All that have been added, with the ranges in which `ranges_of` says that a held slot has this
  // address; without those that are in none.
  using RangesOf = std::function<MappedRanges*(std::uint32_t slot, const std::byte* data)>;
  std::vector<Found> list(const RangesOf& ranges_of) ABSL_LOCKS_EXCLUDED(mutex_);
  // Its views look at copies from now on: the caller is to let go of the slot. False if it has
  // ended, or is about to, and does so itself.
  bool release(const Found& found) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  wire::Mutex mutex_;
  std::uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, PinnedSlot*> pins_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
