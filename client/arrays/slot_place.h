// Where a slot's bytes are in this process: in a segment, in the range of addresses that leases use
// just now; on a device, at one address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/session/mapped_ranges.h"

namespace memlease::internal {

struct SlotPlace {
  MappedRanges* ranges = nullptr;  // nullptr: a device's, or no place at all
  std::uint64_t offset = 0;        // in the segment; or the address

  static SlotPlace of_device(std::byte* data) {
    return {nullptr, reinterpret_cast<std::uintptr_t>(data)};
  }
  std::byte* data() const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address, where there are no ranges
    return ranges != nullptr ? ranges->data() + offset : reinterpret_cast<std::byte*>(offset);
  }
  // By any range that has been used. For signal handlers, too.
  bool has(const void* address, std::uint64_t size_bytes) const {
    if (ranges != nullptr) {
      const auto at = ranges->offset_of(address);
      return at && *at >= offset && *at - offset < size_bytes;
    }
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return offset != 0 && at >= offset && at - offset < size_bytes;
  }
};

}  // namespace memlease::internal
