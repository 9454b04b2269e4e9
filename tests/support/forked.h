// Runs a function in a forked child.
#pragma once

#include <functional>
#include <string>

namespace memlease::testing {

// What it returned there, or how the child ended.
std::string in_forked_child(const std::function<std::string()>& fn);

}  // namespace memlease::testing
