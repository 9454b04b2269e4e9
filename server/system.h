// What the daemon takes from its machine: time, randomness, descriptors and memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "server/core/clock.h"
#include "wire/attach_frame.h"
#include "wire/memory_ceiling.h"

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

// How much memory the daemon may take beside what it has promised, as far as it takes to
// say whether it is so much. Where that is too little, what the heap has free goes back to the
// system first, once a second.
wire::MemoryBound memory_room(std::uint64_t wanted_bytes, const wire::PromisedBytes& promised,
                              wire::ReserveKept kept);
// Of the daemon's control groups, as it was so long ago at most: a look takes a tenth of a
// millisecond.
wire::ReserveLeft reserve_left(std::chrono::milliseconds ago = std::chrono::milliseconds(50));
// What the heap has free, to the system: of gigabytes that takes a tenth of a second.
void give_back_heap();

// From here on nobody can read this process's command line: who does that has the lock of its
// memory meanwhile, which mmap() waits for, and keeps it for as long as he is kept from a
// processor. By its name alone it is listed then. To be called while there is one thread. False:
// the kernel does not do it (CONFIG_CHECKPOINT_RESTORE).
bool hide_command_line();

// How many descriptors this process may have open; 0 = without end.
std::uint64_t descriptor_limit();

}  // namespace memlease::server
