// A read that may have to wait, for Array and Follower.
#pragma once

#include <memlease/array.h>

#include <chrono>

#include "absl/status/status.h"
#include "client/arrays/array_handle.h"
#include "client/session/interrupt.h"
#include "client/slots/slot_reader.h"

namespace memlease::internal {

// Waits for what the options ask for (begin_read), until the handle is closed, or `still_open` is
// not OK any more, or `stop` is requested. Their stream is looked at first, as the wait may be
// long.
absl::Status read_within(ArrayHandle& handle, const ReadOptions& options,
                         std::chrono::nanoseconds default_timeout, ReadAttempt& attempt,
                         InterruptCheck still_open = kNoInterrupts, const Stop* stop = nullptr);

}  // namespace memlease::internal
