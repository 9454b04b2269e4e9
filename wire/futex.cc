#include "wire/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <climits>

#include "wire/held_mutexes.h"

namespace memlease::wire {
namespace {

constexpr std::chrono::milliseconds kPollInterval{1};
static_assert(kMaxFutexWaits == FUTEX_WAITV_MAX);

timespec to_timespec(std::chrono::nanoseconds duration) {
  return {duration.count() / 1'000'000'000, duration.count() % 1'000'000'000};
}

timespec deadline_after(std::chrono::nanoseconds timeout) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return to_timespec(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) +
                     timeout);
}

}  // namespace

FutexResult futex_wait(std::span<const FutexWait> waits, std::chrono::nanoseconds timeout) {
  expect_no_mutex_held("a wait");
  std::array<futex_waitv, FUTEX_WAITV_MAX> entries{};
  assert(waits.size() <= entries.size());
  for (std::size_t i = 0; i < waits.size(); ++i) {
    entries[i].val = waits[i].expected;
    entries[i].uaddr = reinterpret_cast<std::uintptr_t>(waits[i].word);
    entries[i].flags = FUTEX_32;  // shared, not private
  }
  timespec deadline = deadline_after(timeout);
  const long result =
      syscall(SYS_futex_waitv, entries.data(), waits.size(), 0, &deadline, CLOCK_MONOTONIC);
  if (result >= 0) return FutexResult::kWoken;
  if (errno == EAGAIN) return FutexResult::kChanged;
  if (errno == EINTR) return FutexResult::kInterrupted;
  // Not known to this kernel, or forbidden to this container (memleasectl doctor says so): look
  // again soon.
  if (errno != ETIMEDOUT) {
    const timespec pause = to_timespec(std::min<std::chrono::nanoseconds>(timeout, kPollInterval));
    nanosleep(&pause, nullptr);
  }
  return FutexResult::kTimedOut;
}

int futex_wake(const HalfWord& word, int most) {
  return static_cast<int>(syscall(SYS_futex, &word, FUTEX_WAKE, most, nullptr, nullptr, 0));
}

void futex_wake_all(const HalfWord& word) { futex_wake(word, INT_MAX); }

}  // namespace memlease::wire
