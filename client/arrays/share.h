// A process's share of an array's slots: how many versions it may hold by leases and views, so that
// no process stops the writers of an array that can grow (SlotReader::most_held).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "client/arrays/open_array.h"

namespace memlease::internal {

// kTooManyHeld, for a process that may hold `most` and has subscribed.
absl::Status too_many_held(OpenArray& array, std::uint32_t most);

// To be asked before a write: kTooManyHeld if views of what this process itself has written keep
// more than its share. Calls nobody, and looks no further where no view has been made since.
absl::Status write_within_share(OpenArray& array);

}  // namespace memlease::internal
