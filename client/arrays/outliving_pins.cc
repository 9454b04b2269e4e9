#include "client/arrays/outliving_pins.h"

namespace memlease::internal {

void OutlivingPins::add(PinnedSlot& pin) {
  const wire::MutexLock lock(mutex_);
  pin.number = ++last_number_;
  pins_.emplace(pin.number, &pin);
}

void OutlivingPins::remove(const PinnedSlot& pin) {
  const wire::MutexLock lock(mutex_);
  pins_.erase(pin.number);
}

// What is in the table has its slot, which keeps the slot's mapping.
std::vector<OutlivingPins::Found> OutlivingPins::list(const RangesOf& ranges_of) {
  std::vector<Found> found;
  const wire::MutexLock lock(mutex_);
  for (const auto& [number, pin] : pins_) {
    MappedRanges* const ranges = ranges_of(pin->slot, pin->data);
    if (ranges == nullptr) continue;
    found.push_back({number, pin->slot, pin->data, ranges->shared_from_this()});
  }
  return found;
}

bool OutlivingPins::release(const Found& found) {
  const wire::MutexLock lock(mutex_);
  const auto known = pins_.find(found.number);
  if (known == pins_.end()) return false;
  PinnedSlot& pin = *known->second;
  pin.copies = found.ranges;
  auto expected = PinnedSlot::State::kHolds;
  if (!pin.state.compare_exchange_strong(expected, PinnedSlot::State::kReleased)) return false;
  pin.pages.forget();
  pins_.erase(known);
  return true;
}

}  // namespace memlease::internal
