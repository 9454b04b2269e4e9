// How long somebody's calls took.
#pragma once

#include <cstdint>

namespace memlease::testing {

// Of single calls: to create an array, to list, to withdraw it.
struct CallTimes {
  std::uint64_t calls = 0;
  std::uint64_t p50_us = 0;
  std::uint64_t p99_us = 0;
};

}  // namespace memlease::testing
