// Names a step of the protocol at which a process may die. Tests compile the files that name steps
// a second time with MEMLEASE_CRASH_POINTS and kill the process at each of them; in the library
// that users link there is nothing of it.
#pragma once

namespace memlease::internal {

#ifdef MEMLEASE_CRASH_POINTS
void crash_point(const char* step) noexcept;  // tests/support/crash_point.cc
#else
inline void crash_point(const char* /*step*/) noexcept {}
#endif

}  // namespace memlease::internal
