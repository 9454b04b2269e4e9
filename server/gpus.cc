#include "server/gpus.h"

#include <unistd.h>

#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

absl::Status Gpus::look(absl::FunctionRef<void(const Found&)> add) {
  const wire::MutexLock lock(mutex_);
  if (!found_.empty()) return absl::OkStatus();
  auto found = CudaDeviceBackend::all();
  if (!found.ok()) {
    return wire::make_error(
        wire::ErrorCode::kUnsupported,
        fmt::format("the daemon (pid {}) has no GPU: {}", ::getpid(),
                    wire::message_of(found.status())),
        fmt::format("That is about the daemon, whatever this process sees: restart it where it "
                    "sees the driver and the GPU. {}",
                    wire::hint_of(found.status())));
  }
  add(*found);
  found_ = *std::move(found);
  return absl::OkStatus();
}

DeviceBackend* Gpus::find(const std::string& device) {
  const wire::MutexLock lock(mutex_);
  for (const auto& gpu : found_) {
    if (gpu->device() == device) return gpu.get();
  }
  return nullptr;
}

}  // namespace memlease::server
