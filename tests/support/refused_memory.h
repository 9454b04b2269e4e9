// What a test and the daemon share whose memory is refused on demand: tests/support/
// failing_memory.h is the test's half, tests/support/failing_memory.cc what is loaded into the
// daemon before all else.
#pragma once

#include <atomic>
#include <cstdint>

namespace memlease::testing {

struct RefusedMemory {
  enum Mode : std::uint32_t {
    kNothing,
    kOnce,  // the one allocation whose turn it is
    // That one and all after it until the daemon has given its reserve back to the system; then
    // there is enough for all, but not for the reserve.
    kUntilReserve,
    kForGood,  // that one and all after it
  };
  static constexpr const char* kVariable = "REFUSED_MEMORY_OF_A_TEST";  // the file's path

  std::atomic<std::uint32_t> mode{kNothing};
  std::atomic<std::uint32_t> reserve_is_given{0};
  std::atomic<std::uint64_t> turn{0};     // counted from 1
  std::atomic<std::uint64_t> counted{0};  // allocations since the mode was set
  std::atomic<std::uint64_t> refused{0};
};

}  // namespace memlease::testing
