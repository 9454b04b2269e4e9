// Where the work of a lease on a GPU ends.
#pragma once

#include <memlease/stream.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/importer.h"

namespace memlease::internal {

// What both streams were given until now. A lease whose views have been given a stream of the
// library's is not over before that one, whoever says what else.
struct WorkEnd {
  Stream stream;       // none: nobody knows
  Stream view_stream;  // none: there is none, or it is the same
  bool over = false;   // nothing is under way there: the host has waited
};

// One stream behind both: ours, so that the caller's is not made to wait; none if nobody knows.
// Without a wait of the host. Streams that are joined are checked (Importer::check_stream); where
// there is only one, whoever uses it does that.
absl::StatusOr<Stream> join(Importer& importer, const WorkEnd& end);

// After an attempt to see the end of all work: true if that was not possible, as a graph is being
// captured, the caller was interrupted, or the daemon that tells of deaths has gone. False if all
// work is over, or the device itself has failed, which ends it.
bool work_unknown(const absl::Status& idle);

// In place of an end that could not be recorded: waits for the device, true if all is over then.
// Not if one of its streams is being captured: the wait would lose that graph.
bool host_wait_all(Importer& importer, const WorkEnd& end);

}  // namespace memlease::internal
