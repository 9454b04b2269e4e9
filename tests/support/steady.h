// Steady state, for real: a loop in a process that cannot reach the kernel.
#pragma once

#include <cstdint>
#include <functional>

namespace memlease::testing {

// Waits until the process has one thread, closes the way to the kernel (seccomp), runs the cycle so
// often, says one line on standard output, and stays, with all that it has, until standard input
// ends:
//   ok LOOKS OTHERS FIRST_OTHER SECONDS
// LOOKS: calls of poll(2), which look whether the daemon lives; OTHERS: all other system calls that
// were tried, and the number of the first of them (-1 = none).
[[noreturn]] void run_without_kernel(std::uint64_t cycles, const std::function<void()>& cycle);

}  // namespace memlease::testing
