// The devices that arrays may stand on, each with its segments. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/segment_pool.h"

namespace memlease::server {

class DeviceTable {
 public:
  explicit DeviceTable(FileTable& files) : files_(files) {}

  // `backend` outlives this. A device that is here already stays as it is.
  void add(DeviceBackend& backend, const SegmentPool::Limits& limits) {
    devices_.try_emplace(backend.device(), files_, backend, limits);
  }
  // nullptr if there is no such device.
  SegmentPool* find(std::string_view device) {
    const auto it = devices_.find(device);
    return it == devices_.end() ? nullptr : &it->second;
  }
  SegmentPool& at(std::string_view device) { return devices_.find(device)->second; }
  const SegmentPool& at(std::string_view device) const { return devices_.find(device)->second; }
  void process_exited(pid_t pid) {
    for (auto& [name, segments] : devices_) segments.backend().process_exited(pid);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, segments] : devices_) names.push_back(name);
    return names;
  }

 private:
  FileTable& files_;
  std::map<std::string, SegmentPool, std::less<>> devices_;
};

}  // namespace memlease::server
