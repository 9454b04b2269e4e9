// The devices that arrays may be stored on, each with its segments and what each uid has there. Not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
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
  Device(FileTable& files, DeviceBackend& backend, const DeviceLimits& limits,
         const PayerOf& payer_of)
      : quota(of_uids(backend, limits), limits.quota_options, backend.device(), payer_of),
        segments(files, backend, quota, limits.memory) {}

  DeviceBackend& backend() const { return segments.backend(); }
  void set_limits(const DeviceLimits& limits) {
    segments.set_limits(limits.memory);
    quota.set_limits(of_uids(backend(), limits));
  }

  Quota quota;
  SegmentPool segments;

 private:
  static Usage of_uids(const DeviceBackend& backend, const DeviceLimits& limits);
};

// Segments may be larger than the arrays in them by as much again, but no more than one of the
// largest ones; and by four first ones at least, for arrays of several groups and modes. So much
// room is left beside and between arrays that come and go.
inline Usage Device::of_uids(const DeviceBackend& backend, const DeviceLimits& limits) {
  Usage of_uid;
  of_uid.bytes = limits.uid_bytes;
  if (limits.uid_bytes == 0) return of_uid;
  const DeviceBackend::SegmentSizes sizes = backend.segment_sizes();
  const std::uint64_t room =
      std::clamp(limits.uid_bytes, std::min(4 * sizes.first, sizes.most), sizes.most);
  of_uid.segment_bytes =
      limits.uid_bytes +
      std::min(room, std::numeric_limits<std::uint64_t>::max() - limits.uid_bytes);
  return of_uid;
}

class DeviceTable {
 public:
  using Devices = std::map<std::string, Device, std::less<>>;

  DeviceTable(FileTable& files, PayerOf payer_of) : files_(files), payer_of_(std::move(payer_of)) {}

  // `backend` outlives this. A device that is here already stays as it is.
  void add(DeviceBackend& backend, const DeviceLimits& limits) {
    devices_.try_emplace(backend.device(), files_, backend, limits, payer_of_);
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
  const PayerOf payer_of_;
  Devices devices_;
};

}  // namespace memlease::server
