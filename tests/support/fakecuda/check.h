// The happens-before checker: reads a world's trace once, after the fact, and reports accesses to
// device memory that nothing orders.
//
// Each agent (a stream, or the host side of a process) has a vector clock. An operation takes over
// the clock of the host that enqueued it; an event's record, a marker, a word's write keep the
// clock of their agent, and whoever waited for them joins it. Two accesses that overlap, one of
// them a write, race unless the later one's clock knows of the earlier one. What happened to come
// first in this run decides only what the race is called, not whether it is found.
#pragma once

#include <string>
#include <vector>

#include "tests/support/fakecuda/world.h"

namespace fakecuda {

struct Side {
  std::string operation;  // "tk_fill", "cudaMemcpyAsync", "cudaFree"
  std::string agent;      // "stream 3 of process 1234 (peer), device 0"
  u32 pid = 0;
  bool write = false;
};

struct Finding {
  enum class What {
    kReadAfterWrite,  // second read what first had not certainly written
    kWriteAfterRead,  // second overwrote what first had perhaps not read
    kWriteAfterWrite,
    kUseAfterFree,  // second touched what was freed before
    kOrphanWait,    // second waited for what never was signalled, and went on
    kMisuse,        // a rule of CUDA's was broken; `text` says which
    kLeak,          // a process ended well and kept something
  };
  What what = What::kMisuse;
  Side first;
  Side second;
  u64 allocation = 0;
  u64 offset = 0;
  u64 bytes = 0;
  u32 times = 1;
  std::string text;

  bool race() const { return what <= What::kUseAfterFree; }
};

const char* name_of(Finding::What what);
// One paragraph for a person.
std::string describe(const Finding& finding);

// Call it when the world is at rest. Equal findings are one, with a count.
std::vector<Finding> check(const World& world);

}  // namespace fakecuda
