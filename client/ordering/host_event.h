// What stands in for a device's event where there is none left: the host of whoever would record it
// waits for the work, so that nobody else has to.
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

class HostEvent : public DeviceEvent {
 public:
  explicit HostEvent(Importer& importer) : importer_(importer) {}

  absl::Status record(Stream stream) override { return finish(importer_, stream); }
  absl::Status record_joined(Stream stream) override { return finish(importer_, stream); }
  absl::Status wait(Stream /*stream*/) override { return absl::OkStatus(); }
  absl::StatusOr<bool> complete() override { return true; }

 private:
  Importer& importer_;
};

}  // namespace memlease::internal
