#include "wire/held_mutexes.h"

#ifdef MEMLEASE_HELD_MUTEXES
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace memlease::wire {
namespace {

struct HeldMutex {
  const void* mutex = nullptr;
  HeldOver over;
  Here since;
};

// Far above what any thread holds at once. Needs no destruction: destructors of other thread-local
// objects may lock.
struct HeldMutexes {
  std::array<HeldMutex, 32> all;
  std::size_t count = 0;
};
thread_local HeldMutexes held_mutexes;

[[noreturn]] void end_program(const HeldMutex& held, const char* doing, const char* rule) {
  std::fprintf(stderr, "memlease: %s under a mutex, which was locked at %s:%u in %s: %s\n", doing,
               held.since.file_name(), static_cast<unsigned>(held.since.line()),
               held.since.function_name(), rule);
  std::abort();
}

}  // namespace

void note_locked(const void* mutex, HeldOver over, const Here& since) noexcept {
  HeldMutexes& held = held_mutexes;
  assert(held.count < held.all.size());
  for (std::size_t i = 0; i < held.count; ++i) {
    const unsigned char place = held.all[i].over.place;
    if (place != 0 && (over.place == 0 || over.place > place)) continue;
    end_program(held.all[i], "another lock",
                place == 0
                    ? "it is a leaf, under which nothing is locked (docs/locks.md). Lock one "
                      "after the other, or have the table and HeldOverLocks say what is "
                      "nested."
                    : "it comes later in the order of mutexes, or has the same place "
                      "(docs/locks.md). Lock them in that order, or one after the other.");
  }
  held.all[held.count++] = {mutex, over, since};
}

// They end in any order: the last of the list takes the place of the one that goes.
void note_unlocked(const void* mutex) noexcept {
  HeldMutexes& held = held_mutexes;
  for (std::size_t i = held.count; i-- > 0;) {
    if (held.all[i].mutex != mutex) continue;
    held.all[i] = held.all[--held.count];
    return;
  }
}

void expect_no_mutex_held(const char* doing, const void* own) noexcept {
  const HeldMutexes& held = held_mutexes;
  for (std::size_t i = 0; i < held.count; ++i) {
    const HeldMutex& it = held.all[i];
    if (it.mutex == own || it.over.waits) continue;
    end_program(it, doing,
                "no lock is held over what may wait or is not ours (docs/locks.md). Call outside, "
                "publish inside.");
  }
}

}  // namespace memlease::wire
#endif
