// The daemon's GPUs. They cost a context of some hundred megabytes each, so nobody looks for them
// before somebody wants one. Owned by Daemon. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/core/device_backend.h"
#include "server/device/cuda_device_backend.h"
#include "wire/mutex.h"

namespace memlease::server {

class Gpus {
 public:
  using Found = std::vector<std::unique_ptr<CudaDeviceBackend>>;
  // Looks for them, until that has found some. `add` is given these, once, before find() knows
  // them; it must not call back. kUnsupported.
  absl::Status look(absl::FunctionRef<void(const Found&)> add) ABSL_LOCKS_EXCLUDED(mutex_);
  // nullptr: none of that name has been found.
  DeviceBackend* find(const std::string& device) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  wire::Mutex mutex_{wire::HeldOverLocks(1)};
  Found found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
