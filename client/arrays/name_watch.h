// Waits until an array of some name may have been created: on the count by which the daemon tells
// of that (server/core/name_board.h), without a call to it. Used by one thread.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "client/arrays/wait_limit.h"
#include "client/session/control_port.h"
#include "client/session/mapping_cache.h"
#include "client/session/session.h"

namespace memlease::internal {

class NameWatch {
 public:
  explicit NameWatch(Session& session) : session_(session) {}

  // Since `look` had its answer, which came from look_up() and did not find the name. OK: look
  // again, as something has been created, or the limit has expired. Else what ends the wait, or why
  // the count cannot be mapped.
  absl::Status await_creation(const NameLook& look, WaitLimit& wait_limit);

 private:
  absl::Status map(wire::FileId file, WaitLimit& wait_limit);

  Session& session_;
  std::shared_ptr<Mapping> board_;
};

}  // namespace memlease::internal
