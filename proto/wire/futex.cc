#include "proto/wire/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <climits>

namespace memlease::wire {
namespace {

timespec deadline_after(std::chrono::nanoseconds timeout) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t nanoseconds = now.tv_nsec + timeout.count() % 1'000'000'000;
  return {now.tv_sec + timeout.count() / 1'000'000'000 + nanoseconds / 1'000'000'000,
          nanoseconds % 1'000'000'000};
}

}  // namespace

FutexResult futex_wait(std::span<const FutexWait> waits, std::chrono::nanoseconds timeout) {
  std::array<futex_waitv, FUTEX_WAITV_MAX> entries{};
  assert(waits.size() <= entries.size());
  for (std::size_t i = 0; i < waits.size(); ++i) {
    entries[i].val = waits[i].expected;
    entries[i].uaddr = reinterpret_cast<std::uintptr_t>(waits[i].word);
    entries[i].flags = FUTEX_32;  // shared, not private
  }
  timespec deadline = deadline_after(timeout);
  const long result = syscall(SYS_futex_waitv, entries.data(), waits.size(), 0, &deadline,
                              CLOCK_MONOTONIC);
  if (result >= 0) return FutexResult::kWoken;
  if (errno == EAGAIN) return FutexResult::kChanged;
  if (errno == EINTR) return FutexResult::kInterrupted;
  assert(errno == ETIMEDOUT);
  return FutexResult::kTimedOut;
}

void futex_wake_all(const HalfWord& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace memlease::wire
