// What the daemon takes from its machine: time and randomness, and how many descriptors it may
// have.
#pragma once

#include <cstdint>
#include <span>

#include "server/core/clock.h"
#include "wire/attach_frame.h"

namespace memlease::server {

// Thread-safe (it has no state).
class SystemClock final : public Clock {
 public:
  std::uint64_t unix_ms() const override;
  std::uint64_t monotonic_ms() const override;
};

// From the kernel; at most 256 bytes. Waits, early in a boot, until it has any.
void fill_random(std::span<std::uint8_t> bytes);
wire::Incarnation new_incarnation();

// How many descriptors this process may have open; 0 = without end.
std::uint64_t descriptor_limit();

}  // namespace memlease::server
