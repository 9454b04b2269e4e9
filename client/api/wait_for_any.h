// What wait() is made of: a friend of Awaited, which has its parts for no one else.
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

// Thread-safe: it has no state.
struct WaitForAny {
  // In place of a version: the one that is current when the wait begins.
  static constexpr std::uint64_t kCurrent = ~std::uint64_t{0};

  // As memlease::wait() says (memlease/wait.h), and throws as that does. Blocks; `stop`, which may
  // be null, ends it with Interrupted. Of the checks for Ctrl-C it asks the first array's.
  static std::vector<std::size_t> wait(const std::vector<memlease::Awaited>& all, Timeout timeout,
                                       const Stop* stop);

 private:
  // What this process has not met yet is asked of the daemon, within the wait. Does not throw. An
  // array that has been withdrawn is no error, but ready.
  static absl::StatusOr<Awaited> prepare(const memlease::Awaited& one, WaitLimit& wait_limit);
};

}  // namespace memlease::internal
