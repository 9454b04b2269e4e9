// Waits of a host for what a stream was given.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/ordering/importer.h"

namespace memlease::internal {

// May a wait of the host go on? Asked again and again by each that may last; its error ends that.
using Usable = absl::FunctionRef<absl::Status()>;

// Is it an error of the device itself? Then nothing goes on that it was given.
bool device_failed(const absl::Status& status);

// Waits for what one of the library's streams was given until now: by looking, or for the whole
// device if there can be no mark to look at. An error is the device's: then, too, nothing of that
// is under way.
absl::Status finish(Importer& importer, Stream stream);
// The same of a caller's stream. Also ends with an error of `usable`; then that work may go on, as
// it may if the stream is refused (Importer::check_stream).
absl::Status finish(Importer& importer, Stream stream, Usable usable);

}  // namespace memlease::internal
