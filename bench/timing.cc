#include "bench/timing.h"

#include <time.h>
#include <x86intrin.h>

#include <algorithm>
#include <cstddef>

namespace memlease::bench {
namespace {

std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

double measure_tick() {
  const std::uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t start = ticks();
  while (clock_ns(CLOCK_MONOTONIC) < start_ns + 20'000'000) {
  }
  const std::uint64_t end_ns = clock_ns(CLOCK_MONOTONIC);
  return static_cast<double>(end_ns - start_ns) / static_cast<double>(ticks() - start);
}

}  // namespace

std::uint64_t ticks() {
  unsigned cpu;
  const std::uint64_t now = __rdtscp(&cpu);
  _mm_lfence();
  return now;
}

double ns_per_tick() {
  static const double ns = measure_tick();
  return ns;
}

// Another CPU's counter may be a little behind.
double ns_between(std::uint64_t start, std::uint64_t end) {
  return end > start ? static_cast<double>(end - start) * ns_per_tick() : 0;
}

std::uint64_t thread_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

double percentile(std::vector<double>& samples, double fraction) {
  const auto at = samples.begin() +
                  static_cast<std::ptrdiff_t>(fraction * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

}  // namespace memlease::bench
