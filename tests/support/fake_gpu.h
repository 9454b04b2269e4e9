// A device for tests of the daemon's core: its memory has handles, and work on it goes on after a
// call. Outlives what it makes. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "server/core/device_backend.h"
#include "server/core/shared_memory.h"
#include "wire/error.h"

namespace memlease::testing {

class FakeGpu : public server::DeviceBackend {
 public:
  explicit FakeGpu(std::string device) : device_(std::move(device)) {}

  std::string device() const override { return device_; }
  SegmentSizes segment_sizes() const override { return {kGranule, 4 * kGranule, kGranule}; }
  std::uint64_t alignment_bytes(std::uint64_t /*size_bytes*/) const override { return 512; }
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_segment(
      std::uint64_t size_bytes, wire::ReserveKept /*kept*/) override {
    return std::make_unique<Memory>(*this, size_bytes);
  }
  bool takes_descriptors() const override { return false; }
  bool has_events() const override { return true; }
  static std::uint64_t number_of(const wire::DeviceHandle& handle) {
    std::uint64_t number = 0;
    std::memcpy(&number, handle.data(), sizeof number);
    return number;
  }

  int segments = 0;         // that exist
  std::uint64_t bytes = 0;  // of all segments
  // Their handles begin with these numbers.
  std::set<std::uint64_t> segments_alive;

 private:
  static constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

  static wire::DeviceHandle handle_of(std::uint64_t number) {
    wire::DeviceHandle handle{};
    std::memcpy(handle.data(), &number, sizeof number);
    return handle;
  }

  class Memory : public server::SharedMemory {
   public:
    Memory(FakeGpu& gpu, std::uint64_t size_bytes)
        : gpu_(gpu), size_bytes_(size_bytes), handle_(handle_of(++gpu.last_segment_)) {
      ++gpu_.segments;
      gpu_.bytes += size_bytes_;
      gpu_.segments_alive.insert(number_of(handle_));
    }
    ~Memory() override {
      --gpu_.segments;
      gpu_.bytes -= size_bytes_;
      gpu_.segments_alive.erase(number_of(handle_));
    }
    std::uint64_t size_bytes() const override { return size_bytes_; }
    absl::StatusOr<wire::SharedFd> export_fd(bool /*writable*/) override {
      return wire::make_error(wire::ErrorCode::kUnsupported, "it has a handle");
    }
    const wire::DeviceHandle* handle() const override { return &handle_; }
    std::byte* data() override { return nullptr; }

   private:
    FakeGpu& gpu_;
    const std::uint64_t size_bytes_;
    const wire::DeviceHandle handle_;
  };

  const std::string device_;
  std::uint64_t last_segment_ = 0;
};

}  // namespace memlease::testing
