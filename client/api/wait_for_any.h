// What wait() is made of.
#pragma once

#include <memlease/stop.h>
#include <memlease/timeout.h>
#include <memlease/wait.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/arrays/await_any.h"
#include "client/arrays/wait_limit.h"

namespace memlease::internal {

struct WaitForAny {
  // In place of a version: the one that is current when the wait begins.
  static constexpr std::uint64_t kCurrent = ~std::uint64_t{0};

  static std::vector<std::size_t> wait(const std::vector<memlease::Awaited>& all, Timeout timeout,
                                       const Stop* stop);

 private:
  // What this process has not met yet is asked of the daemon, within the wait.
  static absl::StatusOr<Awaited> prepare(const memlease::Awaited& one, WaitLimit& wait_limit);
};

}  // namespace memlease::internal
