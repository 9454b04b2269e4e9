#include "client/ordering/host_wait.h"

#include "client/ordering/look_pauses.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

absl::Status host_wait_mark(Importer& importer, Stream stream, Usable usable) {
  const auto end = importer.mark(stream);
  if (!end.ok()) return importer.synchronize();
  for (LookPauses looks;; looks.pause()) {
    const absl::StatusOr<bool> done = (*end)->complete();
    if (!done.ok() || *done) return done.status();
    if (auto status = usable(); !status.ok()) return status;
  }
}

}  // namespace

bool device_failed(const absl::Status& status) {
  return !status.ok() && wire::code_of(status) == wire::ErrorCode::kInternal;
}

absl::Status finish(Importer& importer, Stream stream) {
  return host_wait_mark(importer, stream, [] { return absl::OkStatus(); });
}

absl::Status finish(Importer& importer, Stream stream, Usable usable) {
  auto status = importer.check_stream(stream);
  return status.ok() ? host_wait_mark(importer, stream, usable) : status;
}

}  // namespace memlease::internal
