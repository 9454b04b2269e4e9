// Has allocations of a daemon fail: the first, the second, and so on, as a test says. Used by one
// thread, and as long as the daemon lives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/refused_memory.h"
#include "tests/support/shared_with_daemon.h"

namespace memlease::testing {

class FailingMemory {
 public:
  using Mode = RefusedMemory::Mode;

  // With which the daemon is to be started.
  std::vector<std::string> environment() const { return shared_.environment(); }
  // From now on the allocation whose turn it is fails.
  void arm(Mode mode, std::uint64_t turn) {
    shared_->counted = 0;
    shared_->refused = 0;
    shared_->reserve_is_given = 0;
    shared_->turn = turn;
    shared_->mode = mode;
  }
  // Nothing fails any more. How many have.
  std::uint64_t disarm() {
    shared_->mode = RefusedMemory::kNothing;
    return shared_->refused;
  }

 private:
  SharedWithDaemon<RefusedMemory> shared_{"tests/libmemlease_failing_memory.so"};
};

}  // namespace memlease::testing
