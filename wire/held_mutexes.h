// Whether a thread holds a mutex where it is to hold none: as it calls the daemon, begins a wait,
// maps a file, opens or closes something on a GPU, runs code of the user's, or locks another mutex
// (docs/locks.md). Clang's annotations cannot say that of a function that is reached by way of
// others. Builds with a sanitizer look (MEMLEASE_HELD_MUTEXES), and a violation ends the program;
// in the others there is nothing of it. Thread-safe: each thread has a list of its own.
#pragma once

#include <source_location>

namespace memlease::wire {

// Of a mutex, at its declaration: it may be held over a wait, as docs/locks.md excepts it.
struct HeldOverWaits {};
inline constexpr HeldOverWaits kHeldOverWaits;
// Likewise: over the locking of others, which come later in the order that the table there has. All
// that do not say so are leaves, and come last.
struct HeldOverLocks {
  explicit constexpr HeldOverLocks(unsigned char its_place) : place(its_place) {}
  unsigned char place;  // from 1 on
};

#ifdef MEMLEASE_HELD_MUTEXES
// Where something is called: a default argument `Here here = Here::current()`.
using Here = std::source_location;

struct HeldOver {
  bool waits = false;
  unsigned char place = 0;  // 0: a leaf
};

// Aborts if this thread holds a leaf, or one that comes later in the order.
void note_locked(const void* mutex, HeldOver over, const Here& since) noexcept;
void note_unlocked(const void* mutex) noexcept;
// Aborts if this thread holds a mutex, apart from `own`, which a wait gives up meanwhile. `doing`
// is what comes now, and the message names it, and where the mutex was locked.
void expect_no_mutex_held(const char* doing, const void* own = nullptr) noexcept;
#else
struct Here {
  static constexpr Here current() { return {}; }
};

struct HeldOver {
  constexpr HeldOver() = default;
  constexpr HeldOver(bool /*waits*/, unsigned char /*place*/) {}
};

inline void note_locked(const void* /*mutex*/, HeldOver /*over*/, Here /*since*/) noexcept {}
inline void note_unlocked(const void* /*mutex*/) noexcept {}
inline void expect_no_mutex_held(const char* /*doing*/, const void* /*own*/ = nullptr) noexcept {}
#endif

}  // namespace memlease::wire
