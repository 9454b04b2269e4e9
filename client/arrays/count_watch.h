// Waits until the daemon tells that something has happened: on a count that it keeps on a page for
// all (server/core/name_board.h), without a call to it. Used by one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "client/arrays/wait_limit.h"
#include "client/session/control_port.h"
#include "client/session/mapping_cache.h"
#include "client/session/session.h"
#include "wire/futex.h"

namespace memlease::internal {

// Whoever sleeps on them would go on to.
inline bool are_as_expected(std::span<const wire::FutexWait> words) {
  return std::ranges::all_of(
      words, [](const wire::FutexWait& wait) { return wait.word->load() == wait.expected; });
}

class CountWatch {
 public:
  // Since `known` was the answer. OK: ask again, as it has changed, or one of `others` has, or
  // `longest` or the limit has passed. Else what ends the wait, or why the count cannot be mapped.
  absl::Status await_change(Session& session, const CountAt& known, WaitLimit& wait_limit,
                            std::chrono::nanoseconds longest = kForever,
                            std::span<const wire::FutexWait> others = {});
  // As far as it is mapped, which a wait for it does.
  bool has_changed(const CountAt& known) const;

 private:
  absl::Status map(Session& session, wire::FileId file, WaitLimit& wait_limit);
  const wire::HalfWord& count_at(const CountAt& known) const;

  std::shared_ptr<Mapping> board_;
};

}  // namespace memlease::internal
