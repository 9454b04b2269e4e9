// How many calls the daemon has answered with an error, by code. Thread-safe, without locks: counts
// are relaxed, and one read beside a call may miss it. The services count; the metrics read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "wire/error.h"

namespace memlease::server {

class CallErrors {
 public:
  // Adds one to the code of the status; nothing for OK. A status without a code of ours counts as
  // kInternal.
  void count(const absl::Status& status) {
    if (!status.ok()) at(wire::code_of(status)).fetch_add(1, std::memory_order_relaxed);
  }
  // Since the daemon's start.
  std::uint64_t of(wire::ErrorCode code) const {
    return counts_.at(static_cast<std::size_t>(code)).load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t>& at(wire::ErrorCode code) {
    return counts_.at(static_cast<std::size_t>(code));
  }

  std::array<std::atomic<std::uint64_t>, wire::kErrorCodes + 1> counts_{};  // by number
};

}  // namespace memlease::server
