#include "client/arrays/release_views.h"

#include <map>
#include <memory>
#include <vector>

#include "client/arrays/outliving_pins.h"
#include "client/session/mapped_ranges.h"

namespace memlease::internal {

namespace {

absl::Status release_pins(OpenArray& array, SlotReader& reader) {
  std::map<std::shared_ptr<MappedRanges>, std::vector<OutlivingPins::Found>> pins;
  std::map<std::shared_ptr<MappedRanges>, std::vector<MappedRanges::Area>> areas;
  for (auto& pin : array.outliving_pins()) {
    const MappedRanges::Area area{pin.data, array.answer().slot_bytes};
    if (!pin.ranges->can_keep(area)) continue;
    areas[pin.ranges].push_back(area);
    pins[pin.ranges].push_back(pin);
  }
  for (const auto& [ranges, of_ranges] : pins) {
    if (auto status = ranges->keep_copies(areas[ranges]); !status.ok()) return status;
    for (const auto& pin : of_ranges) {
      if (array.release_pin(pin)) {
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
