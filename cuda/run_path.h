// Where the dynamic loader looks for what a library needs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace memlease::cuda {

// The folders of the library's RUNPATH, with $ORIGIN replaced. Empty if it has none, or is no
// library for x86-64 or AArch64.
std::vector<std::string> run_path(const std::filesystem::path& library);

}  // namespace memlease::cuda
