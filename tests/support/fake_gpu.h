// A device for tests of the daemon's core: its memory has handles, its events are as complete as
// the test says. Outlives what it makes. Not thread-safe.
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
      std::uint64_t size_bytes) override {
    return std::make_unique<Memory>(*this, size_bytes);
  }
  bool takes_descriptors() const override { return false; }
  bool has_events() const override { return true; }
  absl::StatusOr<std::unique_ptr<server::SharedEvent>> create_event() override {
    if (events_left == 0) {
      return wire::make_error(broken ? wire::ErrorCode::kInternal : wire::ErrorCode::kOutOfMemory,
                              "no more events");
    }
    --events_left;
    return std::make_unique<Event>(*this, ++last_event_);
  }

  static std::uint64_t number_of(const wire::DeviceHandle& handle) {
    std::uint64_t number = 0;
    std::memcpy(&number, handle.data(), sizeof number);
    return number;
  }

  // The event whose handle begins with this number has a record that is not complete.
  std::set<std::uint64_t> pending;
  int events_left = 100;
  bool broken = false;  // is why none are left
  int segments = 0;     // that exist
  int events = 0;
  std::uint64_t bytes = 0;  // of all segments
  // Their handles begin with these numbers.
  std::set<std::uint64_t> segments_alive;
  std::set<std::uint64_t> events_alive;
  int recorded_anew = 0;

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
    absl::StatusOr<wire::UniqueFd> export_fd(bool /*writable*/) const override {
      return wire::make_error(wire::ErrorCode::kUnsupported, "it has a handle");
    }
    const wire::DeviceHandle* handle() const override { return &handle_; }
    std::byte* data() override { return nullptr; }

   private:
    FakeGpu& gpu_;
    const std::uint64_t size_bytes_;
    const wire::DeviceHandle handle_;
  };

  class Event : public server::SharedEvent {
   public:
    Event(FakeGpu& gpu, std::uint64_t number)
        : gpu_(gpu), number_(number), handle_(handle_of(number)) {
      ++gpu_.events;
      gpu_.events_alive.insert(number_);
    }
    ~Event() override {
      --gpu_.events;
      gpu_.events_alive.erase(number_);
    }
    const wire::DeviceHandle& handle() const override { return handle_; }
    bool complete() const override { return !gpu_.pending.contains(number_); }
    absl::Status re_record() override {
      ++gpu_.recorded_anew;
      gpu_.pending.erase(number_);
      return absl::OkStatus();
    }

   private:
    FakeGpu& gpu_;
    const std::uint64_t number_;
    const wire::DeviceHandle handle_;
  };

  const std::string device_;
  std::uint64_t last_event_ = 0;
  std::uint64_t last_segment_ = 0;
};

}  // namespace memlease::testing
