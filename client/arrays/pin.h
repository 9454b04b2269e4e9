// Pins: holds of a slot that live beyond their lease, until their last copy dies.
#pragma once

#include <memlease/lease.h>

#include <cstddef>
#include <cstdint>

#include "client/arrays/open_array.h"

namespace memlease::internal {

// Holds the slot, which a lease of this process has now, at `data`. The reader's half must be
// there. The pin may die on any thread and late: that lets go of the slot, and calls nobody.
Pin make_pin(OpenArray& array, std::uint32_t slot, const std::byte* data);
// In the write for which the pin was made: until the pin dies nobody writes into the slot's whole
// pages (SlotPages::protect).
void protect_under(OpenArray& array, const Pin& pin);
// The lease that the pin was made for ends, and the pin goes on. On a device, before its end is
// recorded: what the pin dies after is no part of that. On the host, after its end: release_views()
// may take the slot from it from now on.
void end_lease_of(OpenArray& array, const Pin& pin);

}  // namespace memlease::internal
