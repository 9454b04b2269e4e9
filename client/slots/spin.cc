#include "client/slots/spin.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>

#include "wire/not_cancelled.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace memlease::internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kLeastCost = std::chrono::microseconds(2);
constexpr std::chrono::nanoseconds kMostCost = std::chrono::microseconds(50);

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Away from this CPU, if there is another one: a wake-up there is what spinning can save.
void leave_cpu(int cpu) {
  cpu_set_t others;
  CPU_ZERO(&others);
  for (int other = 0; other < CPU_SETSIZE; ++other) {
    if (other != cpu) CPU_SET(static_cast<unsigned>(other), &others);
  }
  sched_setaffinity(0, sizeof others, &others);
}

// Ping-pong over two words with a thread of our own; half a round trip is one wake-up.
std::chrono::nanoseconds measure() {
  constexpr std::uint32_t kRounds = 9;
  const wire::NotCancelled whole;  // the other thread is to be joined
  wire::HalfWord ping{0};
  wire::HalfWord pong{0};
  const auto await = [](const wire::HalfWord& word, std::uint32_t value) {
    while (word.load() != value) {
      const wire::FutexWait wait{&word, value - 1};
      wire::futex_wait({&wait, 1}, std::chrono::milliseconds(100));
    }
  };
  std::thread peer([&, here = sched_getcpu()] {
    leave_cpu(here);
    for (std::uint32_t i = 1; i <= kRounds; ++i) {
      await(ping, i);
      pong.store(i);
      wire::futex_wake_all(pong);
    }
  });
  std::array<Clock::duration, kRounds> rounds{};
  for (std::uint32_t i = 1; i <= kRounds; ++i) {
    const auto start = Clock::now();
    ping.store(i);
    wire::futex_wake_all(ping);
    await(pong, i);
    rounds[i - 1] = Clock::now() - start;
  }
  peer.join();
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return std::clamp<std::chrono::nanoseconds>(rounds[kRounds / 2] / 2, kLeastCost, kMostCost);
}

}  // namespace

// Not a local static: a child that is forked while another thread initialises it would wait for
// that thread for ever. Several threads may measure at once.
std::chrono::nanoseconds wake_cost() {
  static std::atomic<std::int64_t> known_ns{0};
  if (const std::int64_t ns = known_ns.load(std::memory_order_relaxed); ns != 0) {
    return std::chrono::nanoseconds(ns);
  }
  std::chrono::nanoseconds cost = kLeastCost;
  try {
    cost = measure();
  } catch (const std::system_error&) {
    return cost;  // no thread can be made, now
  }
  known_ns.store(cost.count(), std::memory_order_relaxed);
  return cost;
}

bool spin(std::span<const wire::FutexWait> counts, std::uint32_t publisher_cpu) {
  if (publisher_cpu == static_cast<std::uint32_t>(sched_getcpu()) + 1) return false;
  const auto end = Clock::now() + wake_cost();
  do {
    for (int i = 0; i < 32; ++i) {
      for (const wire::FutexWait& count : counts) {
        if (count.word->load(std::memory_order_acquire) != count.expected) return true;
      }
      relax();
    }
  } while (Clock::now() < end);
  return false;
}

}  // namespace memlease::internal
