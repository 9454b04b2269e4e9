// How long somebody's calls took.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/percentile.h"

namespace memlease::testing {

// Of single calls: to create an array, to list, to withdraw it.
struct CallTimes {
  std::uint64_t calls = 0;
  std::uint64_t p50_us = 0;
  std::uint64_t p99_us = 0;
};

// Of several measurements of one thing: a machine that others use, too, has its bad moments.
inline CallTimes median_of(const std::vector<CallTimes>& rounds) {
  CallTimes all;
  std::vector<std::uint64_t> p50_us;
  std::vector<std::uint64_t> p99_us;
  for (const CallTimes& round : rounds) {
    all.calls += round.calls;
    p50_us.push_back(round.p50_us);
    p99_us.push_back(round.p99_us);
  }
  all.p50_us = percentile(p50_us, 50);
  all.p99_us = percentile(p99_us, 50);
  return all;
}

}  // namespace memlease::testing
