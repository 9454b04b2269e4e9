// How much memory a process may have: the machine's, or less where a control group says so. For the
// daemon's default and for memleasectl doctor. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace memlease::wire {

struct MemoryCeiling {
  std::uint64_t bytes = 0;
  std::string what;  // "the machine's memory", or the file that has the limit
};

// The lowest limit of the groups that the process is in, from its own up to the root; of version 1
// and 2. `root` has proc/ and sys/: "" for this machine's.
MemoryCeiling memory_ceiling(pid_t pid, const std::string& root = "");

}  // namespace memlease::wire
