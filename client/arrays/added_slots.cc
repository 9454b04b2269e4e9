#include "client/arrays/added_slots.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "wire/error.h"

namespace memlease::internal {

bool AddedSlots::mapped(std::uint32_t slot) const {
  const Slots* slots = slots_.load();
  return slots != nullptr && (*slots)[slot].place.load() == place_of(slot);
}

std::byte* AddedSlots::data(std::uint32_t slot) const {
  const Slots* slots = slots_.load();
  return slots == nullptr ? nullptr : (*slots)[slot].data.load();
}

absl::Status AddedSlots::map(std::uint32_t slot, InterruptCheck interrupt) {
  if (mapped(slot)) return absl::OkStatus();
  const std::uint64_t place = place_of(slot);
  const wire::FileRange at = wire::unpack_place(place);
  auto mapping = mappings_.get(at.file, wire::FileKind::kSegment, interrupt, access_);
  if (!mapping.ok()) return mapping.status();
  if (!(*mapping)->contains(at.offset, slot_bytes_, 1)) {
    return wire::defect("an added slot lies outside of its segment");
  }
  auto made = std::make_unique<Slots>();
  std::shared_ptr<Mapping> before;  // ends without the lock
  const wire::MutexLock lock(mutex_);
  if (made_ == nullptr) {
    made_ = std::move(made);
    slots_.store(made_.get());
  }
  Slot& known = (*made_)[slot];
  before = std::exchange(known.mapping, std::move(*mapping));
  known.data.store(known.mapping->data() + at.offset);
  known.place.store(place);
  mapped_slots_.store(std::max(mapped_slots_.load(), slot + 1));
  return absl::OkStatus();
}

// What somebody holds has not gone: so nobody uses what is unmapped here.
bool AddedSlots::forget_gone() {
  std::vector<std::shared_ptr<Mapping>> gone;  // end without the lock
  gone.reserve(wire::kMaxSlots);
  const wire::MutexLock lock(mutex_);
  const std::uint32_t there = wire::slots_of(board_.slots.load(), layout_);
  for (std::uint32_t s = there; s < mapped_slots_.load(); ++s) {
    Slot& slot = (*made_)[s];
    slot.place.store(0);
    slot.data.store(nullptr);
    gone.push_back(std::exchange(slot.mapping, nullptr));
  }
  mapped_slots_.store(std::min(mapped_slots_.load(), there));
  return mapped_slots_.load() > layout_.regular;
}

}  // namespace memlease::internal
