// What tests reach into, in the client and in the daemon's half of the slot protocol: crash_point()
// names a step at which a process may die, or an exception fly, looks_again() is whether a wait
// also ends without being woken, and leaves_out() whether a step is left out, which a test must
// then find. Tests compile the files that use them a second time with MEMLEASE_CRASH_POINTS; in the
// programs and the library that users have there is nothing of it.
#pragma once

namespace memlease::internal {

#ifdef MEMLEASE_CRASH_POINTS
// In tests/support/crash_point.cc.
void crash_point(const char* step);
bool looks_again() noexcept;
bool leaves_out(const char* step) noexcept;
#else
inline void crash_point(const char* /*step*/) noexcept {}
constexpr bool looks_again() noexcept { return true; }
constexpr bool leaves_out(const char* /*step*/) noexcept { return false; }
#endif

}  // namespace memlease::internal
