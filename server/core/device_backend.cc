#include "server/core/device_backend.h"

#include "wire/error.h"

namespace memlease::server {

absl::StatusOr<std::unique_ptr<SharedEvent>> DeviceBackend::create_event() {
  return wire::defect("work on device '" + device() + "' is not ordered by events");
}

}  // namespace memlease::server
