// What a process counts of its own arrays, at the beginning of each session page of its: for the
// daemon's metrics. The process alone adds, on its slow paths, so that reads and writes that need
// not wait pay nothing; the daemon looks when somebody asks. Thread-safe, as its words are atomic.
//
// A count only grows, as long as the process tells the truth. Whoever reads one bounds it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/shared_word.h"

namespace memlease::wire {

// Waits that slept, by how long they took in all: bucket i has those of at most kWaitBounds[i], the
// last one the others.
inline constexpr std::array<std::chrono::microseconds, 6> kWaitBounds = {
    std::chrono::microseconds(100), std::chrono::milliseconds(1), std::chrono::milliseconds(10),
    std::chrono::milliseconds(100), std::chrono::seconds(1),      std::chrono::seconds(10)};

// W: Word in shared pages, std::uint64_t for sums of them.
template <typename W>
struct WaitCounts {
  W buckets[kWaitBounds.size() + 1]{};
  W total_us{0};
};

template <typename W>
struct Counts {
  WaitCounts<W> version_waits;  // for a version, in a read
  WaitCounts<W> slot_waits;     // for a slot or writer ownership, in a write
  W versions_skipped{0};        // by followers
  W writes_without_slot{0};     // that got none in their time, or did not want to wait
  W reserved[6]{};

  static constexpr std::size_t kWords = 24;
  // All of it as words, which is all that there is in it.
  std::span<W, kWords> words() { return std::span<W, kWords>(reinterpret_cast<W*>(this), kWords); }
  std::span<const W, kWords> words() const {
    return std::span<const W, kWords>(reinterpret_cast<const W*>(this), kWords);
  }
};

using SessionCounts = Counts<Word>;
using SessionSums = Counts<std::uint64_t>;
static_assert(sizeof(SessionCounts) == SessionCounts::kWords * sizeof(Word));
static_assert(sizeof(SessionSums) == sizeof(SessionCounts));

inline void count_wait(WaitCounts<Word>& counts, std::chrono::nanoseconds wait) {
  std::size_t bucket = 0;
  while (bucket < kWaitBounds.size() && wait > kWaitBounds[bucket]) ++bucket;
  counts.buckets[bucket].fetch_add(1, std::memory_order_relaxed);
  counts.total_us.fetch_add(
      static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(wait).count()),
      std::memory_order_relaxed);
}

}  // namespace memlease::wire
