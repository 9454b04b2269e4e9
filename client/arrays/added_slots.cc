#include "client/arrays/added_slots.h"

#include <algorithm>
#include <utility>

namespace memlease::internal {

SlotPlace AddedSlots::place(std::uint32_t slot) const {
  const Slots* slots = slots_.load();
  if (slots == nullptr) return {};
  return {(*slots)[slot].ranges.load(), (*slots)[slot].offset.load()};
}

absl::StatusOr<AddedSlots::Memory> AddedSlots::map(std::uint32_t slot, InterruptCheck interrupt) {
  if (mapped(slot)) return Memory();
  const std::uint64_t place = place_of(slot);
  auto opened = open_(slot, wire::unpack_place(place), interrupt);
  if (!opened.ok()) return opened.status();
  auto made = std::make_unique<Slots>();
  Memory before;
  const wire::MutexLock lock(mutex_);
  if (made_ == nullptr) {
    made_ = std::move(made);
    slots_.store(made_.get());
  }
  Slot& known = (*made_)[slot];
  if (known.memory != nullptr) before.push_back(std::move(known.memory));
  known.memory = std::move(opened->memory);
  known.ranges.store(opened->place.ranges);
  known.offset.store(opened->place.offset);
  known.place.store(place);
  mapped_slots_.store(std::max(mapped_slots_.load(), slot + 1));
  return before;
}

// What somebody holds has not gone: so nobody uses what is forgotten here.
AddedSlots::Memory AddedSlots::forget_gone() {
  const wire::MutexLock lock(mutex_);
  return forget_from(wire::slots_of(board_.slots.load(), layout_));
}

AddedSlots::Memory AddedSlots::forget_all() {
  const wire::MutexLock lock(mutex_);
  return forget_from(layout_.regular);
}

AddedSlots::Memory AddedSlots::forget_from(std::uint32_t slot) {
  Memory gone;
  for (std::uint32_t s = slot; s < mapped_slots_.load(); ++s) {
    Slot& known = (*made_)[s];
    known.place.store(0);
    known.ranges.store(nullptr);
    known.offset.store(0);
    if (known.memory != nullptr) gone.push_back(std::exchange(known.memory, nullptr));
  }
  mapped_slots_.store(std::min(mapped_slots_.load(), slot));
  return gone;
}

}  // namespace memlease::internal
