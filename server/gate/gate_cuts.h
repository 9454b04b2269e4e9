// How many connections the gate has cut, by what they had too much of. Thread-safe, without locks:
// counts are relaxed. GrpcServer counts; the metrics read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "server/gate/excess.h"

namespace memlease::server {

class GateCuts {
 public:
  // A connection has been cut. By any thread.
  void count(Excess excess) {
    counts_.at(static_cast<std::size_t>(excess)).fetch_add(1, std::memory_order_relaxed);
  }
  // Since the daemon's start.
  std::uint64_t of(Excess excess) const {
    return counts_.at(static_cast<std::size_t>(excess)).load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kExcessNames.size()> counts_{};
};

}  // namespace memlease::server
