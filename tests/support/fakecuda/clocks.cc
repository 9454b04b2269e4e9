#include "tests/support/fakecuda/clocks.h"

namespace fakecuda {

void Shadow::split(u64 at) {
  auto next = cells_.upper_bound(at);
  if (next == cells_.begin()) return;
  auto& [start, cell] = *std::prev(next);
  if (start == at || cell.end <= at) return;
  cells_.emplace_hint(next, at, cell);
  cell.end = at;
}

void Shadow::access(const Epoch& epoch, const VectorClock& clock, bool write, u64 from, u64 to,
                    const Race& race) {
  if (from >= to) return;
  split(from);
  split(to);
  // Gaps become cells, so that each byte of the range is in one.
  u64 at = from;
  for (auto cell = cells_.lower_bound(from); at < to; ++cell) {
    const u64 gap_end = cell == cells_.end() ? to : std::min(cell->first, to);
    if (at < gap_end) cell = cells_.emplace_hint(cell, at, Cell{gap_end, {}, {}});
    at = cell->second.end;
  }
  for (auto cell = cells_.find(from); cell != cells_.end() && cell->first < to; ++cell) {
    auto& [end, last_write, reads] = cell->second;
    if (!last_write.before(clock)) race(last_write, true, cell->first, end);
    if (write) {
      for (const Epoch& read : reads) {
        if (!read.before(clock)) race(read, false, cell->first, end);
      }
      reads.clear();
      last_write = epoch;
    } else {
      // A read that this one knows of says nothing more.
      std::erase_if(reads, [&](const Epoch& read) { return read.before(clock); });
      reads.push_back(epoch);
    }
  }
}

}  // namespace fakecuda
