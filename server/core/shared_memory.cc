#include "server/core/shared_memory.h"

#include "proto/wire/error.h"

namespace memlease::server {

absl::StatusOr<std::unique_ptr<SharedEvent>> DeviceBackend::create_event() {
  return wire::make_error(wire::ErrorCode::kInternal,
                          "work on device '" + device() + "' is not ordered by events",
                          "This is a defect of memlease; please report it.");
}

}  // namespace memlease::server
