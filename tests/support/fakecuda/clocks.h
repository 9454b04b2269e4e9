// The checker's clocks and its memory of who touched what. Not thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

class VectorClock {
 public:
  u32 of(u32 agent) const { return agent < ticks_.size() ? ticks_[agent] : 0; }
  void tick(u32 agent) {
    if (agent >= ticks_.size()) ticks_.resize(agent + 1);
    ++ticks_[agent];
  }
  void join(const VectorClock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) {
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
  }

 private:
  std::vector<u32> ticks_;
};

// An access as the shadow remembers it.
struct Epoch {
  u32 agent = 0;  // 0: none
  u32 tick = 0;
  u32 name = 0;

  bool before(const VectorClock& clock) const { return agent == 0 || clock.of(agent) >= tick; }
};

// The last write and the reads since then, for each range of one allocation.
class Shadow {
 public:
  using Race = std::function<void(const Epoch& earlier, bool earlier_writes, u64 from, u64 to)>;

  // Enters an access to [from, to) and calls `race` for each earlier one that `clock` does not
  // know.
  void access(const Epoch& epoch, const VectorClock& clock, bool write, u64 from, u64 to,
              const Race& race);

 private:
  struct Cell {
    u64 end = 0;
    Epoch write;
    std::vector<Epoch> reads;
  };
  // Makes `at` a boundary between two cells, if a cell spans it.
  void split(u64 at);

  std::map<u64, Cell> cells_;  // by their start; gaps were never touched
};

}  // namespace fakecuda
