// The bytes of the slots that the daemon has added to an array, as far as this process has met
// them. Where they are stands on the board, and does not change while anybody holds the slot: so
// whoever holds one finds it here at once if some thread has mapped it, and maps it if not. On a
// device this brings the slot's events, too.
//
// Thread-safe; mapped and unmapped without the lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/slot_place.h"
#include "client/session/interrupt.h"
#include "wire/board.h"
#include "wire/mutex.h"

namespace memlease::internal {

class AddedSlots {
 public:
  struct Opened {
    SlotPlace place;
    std::shared_ptr<const void> memory;  // keeps it mapped
  };
  // Maps the slot that stands there. Called without the lock, perhaps by two threads at once.
  using Open = std::function<absl::StatusOr<Opened>(std::uint32_t slot, wire::FileRange at,
                                                    InterruptCheck interrupt)>;
  // The record outlives this.
  AddedSlots(Open open, const wire::BoardRecord& board, wire::SlotLayout layout)
      : open_(std::move(open)), board_(board), layout_(layout) {}

  // For whoever holds `slot`, or has marked it, until he lets it go: is it mapped? Then place() is
  // where its bytes are. `slot` is not a regular one, and below layout.most, here and below.
  bool mapped(std::uint32_t slot) const {
    const Slots* slots = slots_.load();
    return slots != nullptr && (*slots)[slot].place.load() == place_of(slot);
  }
  SlotPlace place(std::uint32_t slot) const;
  // The board's word for it, to the same.
  std::uint64_t place_word(std::uint32_t slot) const { return place_of(slot); }
  using Memory = std::vector<std::shared_ptr<const void>>;
  // Maps it, which may fetch a file, or ask the daemon for a device's. Gives away what was mapped
  // for a slot of this number that has gone. kInternal: the board's place does not fit its file.
  absl::StatusOr<Memory> map(std::uint32_t slot, InterruptCheck interrupt);

  // How many slots the array has now.
  std::uint32_t count() const { return wire::slots_of(board_.slots.load(), layout_); }
  // Something is mapped that the array has no more.
  bool stale() const {
    return mapped_slots_.load(std::memory_order_relaxed) >
           wire::slots_of(board_.slots.load(std::memory_order_relaxed), layout_);
  }
  // Forgets that, and gives it away, for the caller to unmap.
  Memory forget_gone() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same with all that is mapped. Nobody uses a slot any more.
  Memory forget_all() ABSL_LOCKS_EXCLUDED(mutex_);
  bool any() const { return mapped_slots_.load() > layout_.regular; }

 private:
  struct Slot {
    std::atomic<std::uint64_t> place{0};  // the board's word; 0: not mapped
    std::atomic<MappedRanges*> ranges{nullptr};
    std::atomic<std::uint64_t> offset{0};
    std::shared_ptr<const void> memory;  // under mutex_
  };
  using Slots = std::array<Slot, wire::kMaxSlots>;
  std::uint64_t place_of(std::uint32_t slot) const {
    return board_.places(layout_)[slot - layout_.regular].load();
  }

  Memory forget_from(std::uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Open open_;
  const wire::BoardRecord& board_;
  const wire::SlotLayout layout_;
  wire::Mutex mutex_;
  std::unique_ptr<Slots> made_ ABSL_GUARDED_BY(mutex_);  // with the first one that is met
  std::atomic<Slots*> slots_{nullptr};                   // the same, for whoever has no lock
  std::atomic<std::uint32_t> mapped_slots_{0};           // below which all those mapped are
};

}  // namespace memlease::internal
