// The names of this process's threads.
#pragma once

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace memlease::testing {

inline std::set<std::string> thread_names() {
  std::set<std::string> names;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    names.insert(name);
  }
  return names;
}

}  // namespace memlease::testing
