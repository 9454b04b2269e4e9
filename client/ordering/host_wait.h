// Waits of a host for what a stream was given.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/ordering/importer.h"

namespace memlease::internal {

// Waits for what the stream was given until now: by looking, or for the whole device if there can
// be no mark to look at. An error is the device's: then, too, nothing of that is under way.
absl::Status finish(Importer& importer, Stream stream);
// The same; also ends with an error of `usable`, and then that work may go on.
absl::Status finish(Importer& importer, Stream stream, absl::FunctionRef<absl::Status()> usable);

}  // namespace memlease::internal
