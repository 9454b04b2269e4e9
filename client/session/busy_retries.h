// The tries of one connection to a daemon that is busy with others who connect: again and again,
// until its time is over. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "client/session/interrupt.h"

namespace memlease::internal {

class BusyRetries {
 public:
  // `directory`: the daemon's, for messages. `interrupt` is asked between two tries.
  BusyRetries(std::string directory, std::chrono::steady_clock::time_point end,
              InterruptCheck interrupt)
      : directory_(std::move(directory)), end_(end), interrupt_(interrupt) {}

  // After a try that has failed. OK: it was kBusy, a moment has passed, and it is to be tried
  // again. Else what to fail with: another error itself, what `interrupt` says, or, where the time
  // is over, kTimeout with what the daemon said.
  absl::Status after(const absl::Status& failed);

 private:
  void pause();
  absl::Status stayed_busy() const;

  const std::string directory_;
  const std::chrono::steady_clock::time_point end_;
  const InterruptCheck interrupt_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int tries_ = 0;
  absl::Status busy_;  // the last one
  std::minstd_rand random_{std::random_device{}()};
  std::chrono::microseconds longest_{2000};
};

}  // namespace memlease::internal
