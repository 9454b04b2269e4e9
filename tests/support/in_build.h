// Where a build's files are, wherever the build has been moved to since.
#pragma once

#include <filesystem>
#include <string>

namespace memlease::testing {

// A path within the build that the running test stands in: "bin/memleased".
inline std::string in_build(const std::string& path) {
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (tests.parent_path() / path).string();
}

}  // namespace memlease::testing
