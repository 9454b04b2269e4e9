// Spinning before sleeping: worth it for about as long as a wake-up takes, and never while the one
// that is waited for needs this very core.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "wire/futex.h"

namespace memlease::internal {

// What waking a sleeping thread costs on this machine; measured once per process (about a
// millisecond, with a thread that ends at once).
std::chrono::nanoseconds wake_cost();

// Spins until one of the counts has changed, for at most wake_cost(). publisher_cpu: number + 1 of
// the CPU that the change will come from, 0 if unknown. True if something has changed.
bool spin(std::span<const wire::FutexWait> counts, std::uint32_t publisher_cpu);

}  // namespace memlease::internal
