// What the operating system has refused when it was asked for host memory.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace memlease::server {

// Of errno: kOutOfMemory, with what to do about it.
absl::Status allocation_error(const char* what, std::uint64_t size_bytes);

}  // namespace memlease::server
