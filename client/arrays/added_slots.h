// The bytes of the slots that the daemon has added to a host array, as far as this process has met
// them. Where they are stands on the board, and does not change while anybody holds the slot: so
// whoever holds one finds it here at once if some thread has mapped it, and maps it if not.
//
// Thread-safe; mapped and unmapped without the lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "client/session/interrupt.h"
#include "client/session/mapping_cache.h"
#include "wire/board.h"
#include "wire/mutex.h"

namespace memlease::internal {

class AddedSlots {
 public:
  // The record and the cache outlive this.
  AddedSlots(MappingCache& mappings, const wire::BoardRecord& board, wire::SlotLayout layout,
             std::uint64_t slot_bytes, Access access)
      : mappings_(mappings),
        board_(board),
        layout_(layout),
        slot_bytes_(slot_bytes),
        access_(access) {}

  // For whoever holds `slot`, or has marked it, until he lets it go: is it mapped? Then data() is
  // where its bytes are. `slot` is not a regular one, and below layout.most, here and below.
  bool mapped(std::uint32_t slot) const;
  std::byte* data(std::uint32_t slot) const;
  // Maps it, which may fetch a file. kInternal: the board's place does not fit its file.
  absl::Status map(std::uint32_t slot, InterruptCheck interrupt);

  // Something is mapped that the array has no more.
  bool stale() const {
    return mapped_slots_.load(std::memory_order_relaxed) >
           wire::slots_of(board_.slots.load(std::memory_order_relaxed), layout_);
  }
  // Unmaps that. Is anything left?
  bool forget_gone() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Slot {
    std::atomic<std::uint64_t> place{0};  // the board's word; 0: not mapped
    std::atomic<std::byte*> data{nullptr};
    std::shared_ptr<Mapping> mapping;  // under mutex_
  };
  using Slots = std::array<Slot, wire::kMaxSlots>;
  std::uint64_t place_of(std::uint32_t slot) const {
    return board_.places(layout_)[slot - layout_.regular].load();
  }

  MappingCache& mappings_;
  const wire::BoardRecord& board_;
  const wire::SlotLayout layout_;
  const std::uint64_t slot_bytes_;
  const Access access_;
  wire::Mutex mutex_;
  std::unique_ptr<Slots> made_ ABSL_GUARDED_BY(mutex_);  // with the first one that is met
  std::atomic<Slots*> slots_{nullptr};                   // the same, for whoever has no lock
  std::atomic<std::uint32_t> mapped_slots_{0};           // below which all those mapped are
};

}  // namespace memlease::internal
