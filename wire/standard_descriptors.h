// The numbers 0, 1 and 2 where a program has been started without them, or has closed them.
#pragma once

namespace memlease::wire {

// Takes those that are free, before a file of ours gets one of them: whoever prints would write
// into it. What is read from 0, or written to 1 or 2, fails with EBADF as before, and so do
// programs that this one starts. False with errno. Thread-safe.
bool hold_standard_descriptors();

}  // namespace memlease::wire
