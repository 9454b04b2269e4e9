// How much memory a process may have: the machine's, or less where a control group says so; and how
// much of that is left. For the daemon and for memleasectl doctor. Thread-safe. A process that asks
// how much is left to itself keeps the files open, and takes its groups for those that it is in
// then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace memlease::wire {

// `root` has proc/ and sys/: "" for this machine's.

struct MemoryBound {
  std::uint64_t bytes = 0;
  std::string what;  // "the machine's memory", or the file that has the limit
};

// The lowest limit of the groups that the process is in, from its own up to the root; of version 1
// and 2.
MemoryBound memory_ceiling(pid_t pid, const std::string& root = "");

// Of a reserve, five eighths may be taken by whoever has little so far.
enum class ReserveKept : std::uint8_t { kAll, kThreeEighths };

// Memory that is promised, also where it is not there just now.
struct PromisedBytes {
  std::uint64_t shared = 0;
  std::uint64_t heap = 0;
};

// What may be taken until the machine, or the first of these groups, has nothing but its reserve of
// 256 MiB, of a small group a quarter. What the kernel takes from a cache of files before it kills
// anybody, or slows it down, is counted as free. What is promised counts as taken. Looks no closer
// than it takes to see whether there is as much as is wanted.
MemoryBound memory_room(pid_t pid, std::uint64_t wanted_bytes = UINT64_MAX,
                        const PromisedBytes& promised = {}, ReserveKept kept = ReserveKept::kAll,
                        const std::string& root = "");

// How much of their reserves these groups have left, with what may be taken from caches: that of
// the one that has least. Who may take of it is not refused as long as there is half.
enum class ReserveLeft : std::uint8_t { kHalf, kLessThanHalf, kLessThanQuarter };
ReserveLeft reserve_left(pid_t pid, const std::string& root = "");

}  // namespace memlease::wire
