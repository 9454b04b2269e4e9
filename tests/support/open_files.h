// The descriptors of this process, to see that none is left behind.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace memlease::testing {

inline std::set<std::string> open_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    names.insert(entry.path().filename());
  }
  return names;
}

}  // namespace memlease::testing
