#include "client/ordering/host_wait.h"

#include "client/ordering/backoff.h"

namespace memlease::internal {

absl::Status finish(Importer& importer, Stream stream) {
  return finish(importer, stream, [] { return absl::OkStatus(); });
}

absl::Status finish(Importer& importer, Stream stream, absl::FunctionRef<absl::Status()> usable) {
  const auto end = importer.mark(stream);
  if (!end.ok()) return importer.synchronize();
  for (Backoff backoff;; backoff.pause()) {
    const absl::StatusOr<bool> done = (*end)->complete();
    if (!done.ok() || *done) return done.status();
    if (auto status = usable(); !status.ok()) return status;
  }
}

}  // namespace memlease::internal
