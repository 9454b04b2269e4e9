// Runs a function in forked children.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace memlease::testing {

// What it returned there, or how the child ended.
std::string in_forked_child(const std::function<std::string()>& fn);
// The same in many, which begin with it in one instant.
std::vector<std::string> in_forked_children(int count, const std::function<std::string()>& fn);

}  // namespace memlease::testing
