// How often a process has called which function of CUDA, as the stand-in counts them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/fakecuda/private_world.h"

namespace memlease::testing {

using CallCounts = std::map<std::string, std::uint64_t>;

// Functions that it has never called are left out.
inline CallCounts calls_of(const fakecuda::PrivateWorld& world, pid_t pid) {
  CallCounts counts;
  for (const auto& call : world->layout().calls) {
    const std::string name = call.name.data();
    if (name.empty()) continue;
    if (const auto count = world->calls(name, pid); count != 0) counts[name] = count;
  }
  return counts;
}

// What came since, for each of `cycles` alike.
inline std::map<std::string, double> each_cycle(const CallCounts& before, const CallCounts& after,
                                                int cycles) {
  std::map<std::string, double> each;
  for (const auto& [name, count] : after) {
    const auto known = before.find(name);
    const std::uint64_t more = count - (known == before.end() ? 0 : known->second);
    if (more != 0) each[name] = static_cast<double>(more) / cycles;
  }
  return each;
}

}  // namespace memlease::testing
