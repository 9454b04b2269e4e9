// Waiting for a word of shared memory, across processes.
#pragma once

#include <atomic>
#include <cstdint>

namespace fakecuda {

// Returns when the word is no longer `seen`, somebody woke it, or some milliseconds have passed:
// the caller looks again, also at whether it should still wait.
void wait_a_little(const std::atomic<std::uint32_t>& word, std::uint32_t seen);
// Adds 1 and wakes all who wait.
void bump(std::atomic<std::uint32_t>& word);

}  // namespace fakecuda
