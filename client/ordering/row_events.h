// The events of an array's slots, or of a reader's row: one a slot.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ordering/importer.h"
#include "wire/ids.h"

namespace memlease::internal {

using RowEvents = std::vector<std::unique_ptr<DeviceEvent>>;

// Opens what the daemon has told. No handles: the device had no events left, and hosts wait.
absl::StatusOr<RowEvents> open_events(Importer& importer,
                                      const std::vector<wire::DeviceHandle>& handles,
                                      std::uint32_t slots);

}  // namespace memlease::internal
