// A number that whoever runs a test may set in the environment: how long it goes on, or its seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace memlease::testing {

inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace memlease::testing
