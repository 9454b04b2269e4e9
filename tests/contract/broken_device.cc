#include "tests/contract/broken_device.h"

#include <algorithm>
#include <utility>

#include "wire/error.h"

namespace memlease::testing {
namespace {

constexpr std::uint64_t kUnit = 4096;
constexpr std::uint64_t kCapacity = 64 * kUnit;

}  // namespace

class BrokenDevice::Memory : public server::SharedMemory {
 public:
  Memory(BrokenDevice& device, std::uint8_t number, std::uint64_t size_bytes)
      : device_(device), handle_{number}, size_bytes_(size_bytes) {}
  ~Memory() override {
    const auto words = device_.memory_.find(handle_[0]);
    if (words == device_.memory_.end()) return;
    device_.left_ = words->second.front();
    device_.memory_.erase(words);
  }

  std::uint64_t size_bytes() const override {
    return device_.flaw_ == DeviceFlaw::kWrongSize ? size_bytes_ / 2 : size_bytes_;
  }
  absl::StatusOr<wire::SharedFd> export_fd(bool /*writable*/) override {
    if (device_.flaw_ == DeviceFlaw::kDescriptor) return wire::SharedFd();
    return wire::make_error(wire::ErrorCode::kUnsupported, "it has a handle");
  }
  const wire::DeviceHandle* handle() const override {
    return device_.flaw_ == DeviceFlaw::kNoHandle ? nullptr : &handle_;
  }
  std::byte* data() override {
    if (device_.flaw_ != DeviceFlaw::kDaemonMaps) return nullptr;
    return reinterpret_cast<std::byte*>(device_.memory_.at(handle_[0]).data());
  }

 private:
  BrokenDevice& device_;
  const wire::DeviceHandle handle_;
  const std::uint64_t size_bytes_;
};

server::DeviceBackend::SegmentSizes BrokenDevice::segment_sizes() const {
  return {flaw_ == DeviceFlaw::kOddSizes ? kUnit + 1 : kUnit, 4 * kUnit, kUnit};
}

std::uint64_t BrokenDevice::alignment_bytes(std::uint64_t /*size_bytes*/) const {
  return flaw_ == DeviceFlaw::kAlignment ? 64 : 256;
}

absl::StatusOr<std::unique_ptr<server::SharedMemory>> BrokenDevice::create_segment(
    std::uint64_t size_bytes, wire::ReserveKept /*kept*/) {
  const bool too_large = size_bytes > kCapacity;
  if ((too_large && flaw_ != DeviceFlaw::kEndless) ||
      (failed_ && flaw_ == DeviceFlaw::kExhausted)) {
    failed_ = true;
    return wire::make_error(wire::ErrorCode::kOutOfMemory, "no more");
  }
  const std::uint8_t number = flaw_ == DeviceFlaw::kOneHandle ? 1 : next_number();
  std::uint64_t value = 0;
  if (flaw_ == DeviceFlaw::kNotZeroed) value = 5;
  if (flaw_ == DeviceFlaw::kUsedNotZeroed) value = left_;
  if (!too_large) memory_[number] = Words(size_bytes / sizeof value, value);
  return std::make_unique<Memory>(*this, number, size_bytes);
}

std::optional<std::uint64_t> BrokenDevice::differing(const wire::DeviceHandle& memory,
                                                     std::uint64_t /*words*/,
                                                     std::uint64_t expected) {
  const auto found = memory_.find(memory[0]);
  if (found == memory_.end()) return std::nullopt;
  return static_cast<std::uint64_t>(
      std::ranges::count_if(found->second, [&](std::uint64_t word) { return word != expected; }));
}

bool BrokenDevice::fill(const wire::DeviceHandle& memory, std::uint64_t /*words*/,
                        std::uint64_t value) {
  for (auto& [number, words] : memory_) {
    if (number == memory[0] || flaw_ == DeviceFlaw::kSharedBytes) std::ranges::fill(words, value);
  }
  return true;
}

}  // namespace memlease::testing
