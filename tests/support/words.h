// Arrays of 64-bit words, for tests to which the elements do not matter.
#pragma once

#include <memlease/client.h>

#include <cstdint>
#include <string>

namespace memlease::testing {

inline CreateOptions words(const std::string& name, std::int64_t count) {
  CreateOptions options;
  options.name = name;
  options.dtype = dtype_of<std::uint64_t>();
  options.shape = {count};
  return options;
}

}  // namespace memlease::testing
