// The descriptors of this process, to see that none is left behind.
#pragma once

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "tests/support/eventually.h"

namespace memlease::testing {

inline std::set<std::string> open_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    names.insert(entry.path().filename());
  }
  return names;
}

// Whether there are none but these, soon: some are closed by another thread.
inline bool closes_all_but(const std::set<std::string>& files) {
  return eventually([&] { return std::ranges::includes(files, open_files()); });
}

}  // namespace memlease::testing
