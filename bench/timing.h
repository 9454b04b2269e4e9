// Clocks for measuring, and what is made of the samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memlease::bench {

// Time by the processor's counter, which costs less than the clock's call and is the same on all
// CPUs. Ordered against what stands around it.
std::uint64_t ticks();
// Nanoseconds of one tick, measured at the first call (20 ms).
double ns_per_tick();
// Nanoseconds from one reading of the counter to another.
double ns_between(std::uint64_t start, std::uint64_t end);
// Processor time of the calling thread: for loops that wait for nobody, as it leaves out what else
// the machine does meanwhile.
std::uint64_t thread_ns();

// The value below which `fraction` of the samples are. Reorders them.
double percentile(std::vector<double>& samples, double fraction);

// One call, by the processor's counter.
template <typename Fn>
double once_ns(Fn fn) {
  const std::uint64_t start = ticks();
  fn();
  return ns_between(start, ticks());
}

// The median of single calls fn(0) .. fn(rounds-1).
template <typename Fn>
double median_ns(int rounds, Fn fn) {
  std::vector<double> samples;
  samples.reserve(static_cast<std::size_t>(rounds));
  for (int i = 0; i < rounds; ++i) samples.push_back(once_ns([&] { fn(i); }));
  return percentile(samples, 0.5);
}

// The mean of fn(0) .. fn(rounds-1), too short to be measured singly, in processor time.
template <typename Fn>
double ns_per_round(int rounds, Fn fn) {
  const std::uint64_t start = thread_ns();
  for (int i = 0; i < rounds; ++i) fn(i);
  return static_cast<double>(thread_ns() - start) / rounds;
}

}  // namespace memlease::bench
