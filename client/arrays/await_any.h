// Waits for several arrays at once, of one daemon or of several.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/wait_limit.h"
#include "client/slots/slot_reader.h"

namespace memlease::internal {

struct Awaited {
  std::shared_ptr<ArrayHandle> handle;
  std::uint64_t newer_than = 0;
  SlotReader* reader = nullptr;  // by prepare(); none: the array has been withdrawn, which is ready
};

// Opens in a forked child, subscribes: what a wait needs of the array. Errors are those of a
// read, but for kWithdrawn.
absl::Status prepare(Awaited& awaited, InterruptCheck interrupt);

// A read of a version above `newer_than` would not wait: there is one, or it would fail. `awaited`
// has been prepared. Calls the daemon for the page of a writer that this process has not met, until
// `interrupt` says otherwise.
bool is_ready(const Awaited& awaited, InterruptCheck interrupt);

// The places in `all` of those that are ready, at least one; none once the wait has expired. `all`
// has been prepared. kInterrupted and kDaemonLost as a read.
absl::StatusOr<std::vector<std::size_t>> await_any(const std::vector<Awaited>& all,
                                                   WaitLimit& wait_limit);

}  // namespace memlease::internal
