#include "wire/crowd.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <system_error>
#include <thread>

#include "wire/futex.h"
#include "wire/signals_blocked.h"

namespace memlease::wire {
namespace {

constexpr std::chrono::seconds kQuiet{1};
// So many of a crowd are woken before it goes on by the thread, where there was one before.
constexpr int kFewOfCrowd = 2;

// Without a lock, and without an end, so that neither a fork nor the end of the process waits for
// it, or finds it in between.
struct Crowds {
  std::array<std::atomic<const HalfWord*>, 64> words{};
  HalfWord news{0};
  std::atomic<const HalfWord*> last{nullptr};  // where one was found
  std::atomic<pid_t> thread_of{0};             // a forked child has none
};
constinit Crowds crowds;

// False: there was nothing to do.
bool wake_those_noted() {
  bool some = false;
  for (auto& noted : crowds.words) {
    if (noted.load() == nullptr) continue;
    if (const HalfWord* const word = noted.exchange(nullptr)) {
      if (futex_wake(*word, INT_MAX) + kFewOfCrowd < kWokenAtOnce) crowds.last.store(nullptr);
      some = true;
    }
  }
  return some;
}

// False: there is no place for it.
bool note(const HalfWord& word) {
  for (auto& noted : crowds.words) {
    if (noted.load() == &word) return true;
  }
  for (auto& noted : crowds.words) {
    const HalfWord* free = nullptr;
    if (noted.compare_exchange_strong(free, &word)) return true;
  }
  return false;
}

void run() {
  pthread_setname_np(pthread_self(), "memlease-wake");
  const pid_t process = getpid();
  for (;;) {
    const std::uint32_t news = crowds.news.load();
    if (wake_those_noted()) continue;
    const FutexWait wait{&crowds.news, news};
    if (futex_wait({&wait, 1}, kQuiet) != FutexResult::kTimedOut) continue;
    crowds.thread_of.store(0);
    // Somebody may have noted a word, and seen the thread.
    if (!wake_those_noted()) return;
    pid_t none = 0;
    if (!crowds.thread_of.compare_exchange_strong(none, process)) return;
  }
}

bool is_of_real_time() {
  const int policy = sched_getscheduler(0);
  return policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE;
}

// False: there is none to be had.
bool has_thread() {
  const pid_t process = getpid();
  pid_t before = crowds.thread_of.load();
  if (before == process) return true;
  if (!crowds.thread_of.compare_exchange_strong(before, process)) return before == process;
  const SignalsBlocked blocked;
  try {
    std::thread(run).detach();
    return true;
  } catch (const std::system_error&) {
    crowds.thread_of.store(0);
    return false;
  }
}

}  // namespace

void wake_all(const HalfWord& word) {
  const int first = crowds.last.load() == &word ? kFewOfCrowd : kWokenAtOnce;
  if (futex_wake(word, first) < first) return;
  if (is_of_real_time() || !note(word)) {
    return futex_wake_all(word);
  }
  crowds.last.store(&word);
  crowds.news.fetch_add(1);
  if (has_thread()) {
    futex_wake(crowds.news, 1);
  } else {
    wake_those_noted();
  }
}

}  // namespace memlease::wire
