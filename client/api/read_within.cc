#include "client/api/read_within.h"

#include "client/arrays/begin_read.h"
#include "client/arrays/not_now.h"
#include "client/arrays/open_array.h"
#include "client/arrays/replicas.h"
#include "client/arrays/wait_limit.h"

namespace memlease::internal {

absl::Status read_within(ArrayHandle& handle, const ReadOptions& options,
                         std::chrono::nanoseconds default_timeout, ReadAttempt& attempt,
                         InterruptCheck still_open, const Stop* stop) {
  attempt = {};
  if (auto status = handle.use(); !status.ok()) return status;
  OpenArray& state = handle.array();
  if (auto status = state.check_stream(options.stream); !status.ok()) return status;
  const auto both_open = [&] {
    auto status = still_open();
    return status.ok() ? handle.use() : status;
  };
  WaitLimit wait_limit(state.session(), handle.interrupt_check(), options.timeout, default_timeout,
                       both_open, stop);
  if (!handle.has_places()) {
    auto status = begin_read(state, options, wait_limit, attempt);
    if (!is_not_now(status)) return status;
  }
  return begin_read_anywhere(handle, options, wait_limit, attempt);
}

}  // namespace memlease::internal
