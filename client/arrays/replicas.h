// Reads and writes of an array that is on several devices: its home and its replicas, which are
// arrays of their own in all but their numbers. A number is the home's to give, and is one content
// wherever it is. Whoever reads on one device, and finds that a newer version is on another, copies
// it, as a writer of the former; so a version is copied once, however many ask for it.
//
// Whoever writes on a replica owns the home meanwhile, too: it is one array with one writer. The
// rules, and what each is for: tests/model/replicas.pml. Called by Array and Follower.
#pragma once

#include <memlease/array.h>

#include "absl/status/status.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/begin_write.h"
#include "client/arrays/wait_limit.h"

namespace memlease::internal {

// As begin_read(), for a handle that has places. What it finds elsewhere it copies here: kDenied
// where this process may not write. On a GPU the call waits for the copy.
absl::Status begin_read_anywhere(ArrayHandle& handle, const ReadOptions& options,
                                 WaitLimit& wait_limit, ReadAttempt& attempt);
// As begin_write(), for a handle that has a home.
absl::Status begin_write_on_replica(ArrayHandle& handle, WaitLimit& wait_limit,
                                    WriteAttempt& attempt, IfNoSlot if_none = IfNoSlot::kExplain);
// A write, for any handle, whose slot begins with the newest version's bytes; on a GPU these are
// only made ready for the lease's stream, which copies them (begin_write.h: copy_current).
absl::Status begin_update_anywhere(ArrayHandle& handle, WaitLimit& wait_limit,
                                   WriteAttempt& attempt);

}  // namespace memlease::internal
