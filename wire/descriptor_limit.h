// What to do where no file descriptor is left.
#pragma once

#include <string>

namespace memlease::wire {

// For the end of a sentence: "raise the limit of open files, which is 256 (ulimit -n)".
std::string raise_descriptor_limit();

}  // namespace memlease::wire
