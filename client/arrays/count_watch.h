// Waits until the daemon tells that something has happened: on a count that it keeps on a page for
// all (server/core/name_board.h), without a call to it. Used by one thread.
#pragma once

#include <chrono>
#include <memory>

#include "absl/status/status.h"
#include "client/arrays/wait_limit.h"
#include "client/session/control_port.h"
#include "client/session/mapping_cache.h"
#include "client/session/session.h"

namespace memlease::internal {

class CountWatch {
 public:
  // Since `known` was the answer. OK: ask again, as it has changed, or `longest` or the limit has
  // passed. Else what ends the wait, or why the count cannot be mapped.
  absl::Status await_change(Session& session, const CountAt& known, WaitLimit& wait_limit,
                            std::chrono::nanoseconds longest = kForever);

 private:
  absl::Status map(Session& session, wire::FileId file, WaitLimit& wait_limit);

  std::shared_ptr<Mapping> board_;
};

}  // namespace memlease::internal
