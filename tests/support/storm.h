// What the victims of a kill storm do: random calls until somebody ends it.
#pragma once

#include <memlease/client.h>

#include <cstdint>
#include <string>
#include <vector>

namespace memlease::testing {

// On arrays of the Pattern kind that stand already, and on some of its own.
[[noreturn]] void rage(const Client& client, std::uint64_t seed,
                       const std::vector<std::string>& names);

}  // namespace memlease::testing
