// Waits for several arrays at once, of one daemon or of several.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/open_array.h"
#include "client/arrays/places.h"
#include "client/arrays/wait_limit.h"
#include "client/session/interrupt.h"
#include "client/slots/slot_reader.h"

namespace memlease::internal {

// By ArrayHandle::awaited().
struct Awaited {
  std::shared_ptr<OpenArray> array;
  std::uint64_t newer_than = 0;
  // What else makes it ready, and is told by wait_news (client/session/wait_news.h); may be empty.
  std::function<bool()> is_over;
  // For an array that may have places: these, or none while it has none. May call the daemon, and
  // fails where nobody knows, or with what the check says.
  std::function<absl::StatusOr<std::optional<Places>>(InterruptCheck)> places = {};
  // Whose writer it is that may go, of a replica; null: the array's own.
  std::shared_ptr<OpenArray> home = {};
  // It is ready, too, once no process is the writer and nothing newer is there; but not before a
  // first version was, or `begun`.
  bool until_writer_gone = false;
  bool begun = false;
  SlotReader* reader = nullptr;  // none: the array has been withdrawn, which is ready
};

// The writer has gone, and what it has published is not above `newer_than`: what
// `until_writer_gone` means. False, too, where only a call could tell that the daemon does not
// answer at once.
bool is_at_end(const Awaited& awaited);

// The places in `all` of those that are ready, at least one; none once the wait has expired.
// kInterrupted and kDaemonLost as a read. Ready is what a read of a version above `newer_than`
// would not wait for: there is one, or it would fail. What has to be asked of the daemon, as the
// page of a writer that this process has not met, holds up neither the others nor the end of the
// wait.
absl::StatusOr<std::vector<std::size_t>> await_any(const std::vector<Awaited>& all,
                                                   WaitLimit& wait_limit);

}  // namespace memlease::internal
