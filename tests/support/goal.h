// The goals of docs/reliability.md: a test does a little of one in `./dev test`, and all of it in
// `./dev prove goals`, which sets MEMLEASE_GOALS and keeps what was reached.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "fmt/format.h"

namespace memlease::testing {

inline bool is_proving() { return std::getenv("MEMLEASE_GOALS") != nullptr; }

// How often, how long, how many.
inline std::uint64_t goal(std::uint64_t in_a_test, std::uint64_t in_all) {
  return is_proving() ? in_all : in_a_test;
}

// A line for the book.
template <typename... Values>
void reached(fmt::format_string<Values...> what, Values&&... values) {
  fmt::print("reached: {}\n", fmt::format(what, std::forward<Values>(values)...));
}

}  // namespace memlease::testing
