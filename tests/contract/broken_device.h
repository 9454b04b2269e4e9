// A device in this process's memory with exactly one flaw: what the contract's checks must find.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/contract/device_contract.h"

namespace memlease::testing {

enum class DeviceFlaw : std::uint8_t {
  kNone,  // so that what is found is due to the flaw alone
  kOddSizes,
  kAlignment,
  kWrongSize,
  kDescriptor,
  kDaemonMaps,
  kNoHandle,
  kOneHandle,
  kNotZeroed,
  kUsedNotZeroed,
  kSharedBytes,
  kEndless,    // memory beyond all bounds
  kExhausted,  // nothing after a failure
};

// The neighbour is another process by name alone: it sees what the device keeps.
class BrokenDevice : public server::DeviceBackend, public Neighbour {
 public:
  explicit BrokenDevice(DeviceFlaw flaw) : flaw_(flaw) {}

  std::string device() const override { return "GPU-broken"; }
  SegmentSizes segment_sizes() const override;
  std::uint64_t alignment_bytes(std::uint64_t size_bytes) const override;
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_segment(
      std::uint64_t size_bytes, wire::ReserveKept kept) override;
  bool has_events() const override { return true; }

  std::optional<std::uint64_t> differing(const wire::DeviceHandle& memory, std::uint64_t words,
                                         std::uint64_t expected) override;
  bool fill(const wire::DeviceHandle& memory, std::uint64_t words, std::uint64_t value) override;

 private:
  class Memory;
  using Words = std::vector<std::uint64_t>;

  std::uint8_t next_number() { return ++last_; }

  const DeviceFlaw flaw_;
  std::uint8_t last_ = 0;  // first byte of the last handle
  bool failed_ = false;
  std::uint64_t left_ = 0;                // what the last segment's words were when it went
  std::map<std::uint8_t, Words> memory_;  // by the first byte of its handle
};

}  // namespace memlease::testing
