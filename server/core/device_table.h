// The devices that arrays may be stored on, each with its segments and what each uid has there. Not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/quota.h"
#include "server/core/segment_pool.h"

namespace memlease::server {

struct DeviceLimits {
  SegmentPool::Limits memory;
  std::uint64_t uid_bytes = 0;  // of arrays; 0 = no limit
  std::string_view quota_options = "quota_";
};

struct Device {
  Device(FileTable& files, DeviceBackend& backend, const DeviceLimits& limits)
      : segments(files, backend, limits.memory),
        quota({limits.uid_bytes, 0, 0}, limits.quota_options, backend.device()) {}

  DeviceBackend& backend() const { return segments.backend(); }
  void set_limits(const DeviceLimits& limits) {
    segments.set_limits(limits.memory);
    quota.set_limits({limits.uid_bytes, 0, 0});
  }

  SegmentPool segments;
  Quota quota;
};

class DeviceTable {
 public:
  using Devices = std::map<std::string, Device, std::less<>>;

  explicit DeviceTable(FileTable& files) : files_(files) {}

  // `backend` outlives this. A device that is here already stays as it is.
  void add(DeviceBackend& backend, const DeviceLimits& limits) {
    devices_.try_emplace(backend.device(), files_, backend, limits);
  }
  // nullptr if there is no such device.
  Device* find(std::string_view device) {
    const auto it = devices_.find(device);
    return it == devices_.end() ? nullptr : &it->second;
  }
  // The device must be there: for names that this process has from a device or an array.
  Device& at(std::string_view device) { return devices_.find(device)->second; }
  const Devices& all() const { return devices_; }
  Devices& all() { return devices_; }
  // Tells each backend, which may hold something for the process.
  void process_exited(pid_t pid) {
    for (auto& [name, device] : devices_) device.backend().process_exited(pid);
  }
  // In order.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, device] : devices_) names.push_back(name);
    return names;
  }

 private:
  FileTable& files_;
  Devices devices_;
};

}  // namespace memlease::server
