#include "client/arrays/release_views.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "client/arrays/outliving_pins.h"
#include "client/session/mapped_ranges.h"

namespace memlease::internal {

namespace {

// Where the pin's views look.
MappedRanges::Area area_of(const OpenArray& array, const OutlivingPins::Found& pin) {
  return {pin.data, array.facts().slot_bytes};
}

absl::Status release_pins(OpenArray& array, SlotReader& reader) {
  std::map<std::shared_ptr<MappedRanges>, std::vector<OutlivingPins::Found>> by_ranges;
  const auto ranges_of = [&](std::uint32_t slot, const std::byte* data) {
    return array.ranges_of(slot, data);
  };
  for (auto& pin : array.outliving_pins().list(ranges_of)) {
    if (pin.ranges->can_keep(area_of(array, pin))) by_ranges[pin.ranges].push_back(pin);
  }
  for (const auto& [ranges, pins] : by_ranges) {
    std::vector<MappedRanges::Area> areas;
    for (const auto& pin : pins) areas.push_back(area_of(array, pin));
    if (auto status = ranges->keep_copies(areas); !status.ok()) return status;
    for (const auto& pin : pins) {
      if (array.outliving_pins().release(pin)) {
        reader.release(pin.slot);
      } else {
        ranges->let_go(pin.data);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status release_views(OpenArray& array) {
  SlotReader* const reader = array.reader_if_subscribed();
  if (reader == nullptr) return absl::OkStatus();
  auto status = release_pins(array, *reader);
  array.leave_if_due();  // it has been closed, and these were the last
  return status;
}

}  // namespace memlease::internal
