// A write that may have to wait, for Array.
#pragma once

#include <memlease/array.h>

#include <chrono>

#include "absl/status/status.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/begin_write.h"
#include "client/slots/slot_writer.h"

namespace memlease::internal {

// Where a write does not say how long.
inline constexpr std::chrono::seconds kDefaultWriteWait{10};

// Whether the daemon is asked, before the write begins, for what pin() of a host array's lease
// would ask it for: that calls nobody then.
enum class Pins : bool { kLater, kPrepared };

// Waits for a slot to write (begin_write), and for what else is asked for, as long as the options
// say, until the handle is closed or `stop` is requested. kDenied where this process may not write.
absl::Status write_within(ArrayHandle& handle, const WriteOptions& options,
                          std::chrono::nanoseconds default_wait, const Stop* stop, Pins pins,
                          WriteAttempt& attempt, IfNoSlot if_none = IfNoSlot::kExplain);
// The same, and the slot begins with the newest version's bytes; on a GPU the lease copies them.
absl::Status update_within(ArrayHandle& handle, const WriteOptions& options,
                           std::chrono::nanoseconds default_wait, const Stop* stop, Pins pins,
                           WriteAttempt& attempt);

}  // namespace memlease::internal
