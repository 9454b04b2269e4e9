#include "client/api/await_read.h"

#include "client/arrays/begin_read.h"
#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"

namespace memlease::internal {

absl::Status await_read(ArrayHandle& handle, const ReadOptions& options, Stream stream,
                        ReadAttempt& attempt, InterruptCheck still_open) {
  attempt = {};
  if (auto status = handle.use(); !status.ok()) return status;
  OpenArray& state = handle.array();
  if (stream && state.importer() != nullptr) {
    if (auto status = state.importer()->check_stream(stream); !status.ok()) return status;
  }
  const auto both_open = [&] {
    auto status = still_open();
    return status.ok() ? handle.use() : status;
  };
  WaitLimit wait_limit(state.session(), handle.interrupt_check(), options.timeout, kForever,
                       both_open);
  return begin_read(state, options, wait_limit, attempt);
}

}  // namespace memlease::internal
