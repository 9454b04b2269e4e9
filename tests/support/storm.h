// What the victims of a kill storm do: random calls until somebody ends it.
#pragma once

#include <memlease/client.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace memlease::testing {

// On arrays of the Pattern kind that stand already, and on some of its own.
[[noreturn]] void rage(const Client& client, std::uint64_t seed,
                       const std::vector<std::string>& names);

// Counts up the first word of an array of uint64_t, and that of this number, in one update after
// the other. Aborts if the first one is not the sum of the others, or a turn does not come.
[[noreturn]] void count_up(const Client& client, const std::string& name, std::size_t number);

}  // namespace memlease::testing
