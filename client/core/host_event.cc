#include "client/core/host_event.h"

#include "client/core/backoff.h"

namespace memlease::internal {

absl::Status finish(Importer& importer, Stream stream) {
  const auto end = importer.mark(stream);
  if (!end.ok()) return importer.synchronize();
  absl::StatusOr<bool> done = (*end)->complete();
  for (Backoff backoff; done.ok() && !*done; done = (*end)->complete()) backoff.pause();
  return done.status();
}

}  // namespace memlease::internal
