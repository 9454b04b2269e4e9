// How long a call may wait. Standard library only, C++17.
#pragma once

#include <chrono>
#include <optional>

namespace memlease {

// Nothing = the call's default, zero = not at all.
using Timeout = std::optional<std::chrono::nanoseconds>;
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

}  // namespace memlease
