// Events as the daemon tells of them: of an array's slots, or of a reader's row, one a slot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ordering/importer.h"
#include "wire/ids.h"

namespace memlease::internal {

using RowEvents = std::vector<std::unique_ptr<DeviceEvent>>;

// Opens what the daemon has told. No handle: the device had none left, and hosts wait.
absl::StatusOr<std::unique_ptr<DeviceEvent>> open_event(
    Importer& importer, const std::optional<wire::DeviceHandle>& handle);
// Likewise, all of them.
absl::StatusOr<RowEvents> open_events(Importer& importer,
                                      const std::vector<wire::DeviceHandle>& handles,
                                      std::uint32_t slots);

}  // namespace memlease::internal
