#include "client/arrays/array_owner.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

// The daemon has done all of the call that it ever will.
bool is_final(const absl::Status& answer) {
  return answer.ok() || wire::code_of(answer) == wire::ErrorCode::kInvalidArgument;
}

}  // namespace

wire::SharedKind ArrayOwner::share_kind(const wire::ArrayKind& kind) {
  wire::ArrayKind with_strides = kind;
  with_strides.strides_bytes = wire::strides_bytes_of(kind);
  const wire::MutexLock lock(kinds_mutex_);
  return kinds_.share(with_strides);
}

bool ArrayOwner::leave_some(std::span<const Departure>& departures, InterruptCheck interrupt,
                            absl::Status& interrupted) {
  const std::size_t some = std::min(departures.size(), wire::kMostDepartures);
  const auto [told, answered_below] = departure_numbers_.begin(departures.first(some));
  departures = departures.subspan(some);
  if (told.empty()) return true;
  crash_point("leave.begin");
  const auto answer = session().control().leave(told, answered_below, interrupt);
  crash_point("leave.answered");
  if (wire::code_of(answer) == wire::ErrorCode::kForkedClient) {
    departures = {};  // the parent's, as are the locks, which its threads may hold
    return true;
  }
  // A connection may have been cut that is made again, and the session goes on.
  if (is_final(answer) || session().control().session_ended()) {
    departure_numbers_.end(told);
    return true;
  }
  for (const Departure& again : told) depart(again, {});
  if (interrupt_of(answer) != nullptr) interrupted.Update(answer);
  return false;
}

absl::Status ArrayOwner::leave(std::span<const Departure> departures, InterruptCheck interrupt) {
  absl::Status interrupted;
  while (!departures.empty() && !session().control().silent()) {
    if (!leave_some(departures, interrupt, interrupted)) break;
  }
  for (const Departure& later : departures) depart(later, {});
  imports().close_unused();
  return interrupted;
}

// Of an array of the host there are registered pages; of one of a GPU, the cache has what is open.
void ArrayOwner::end_use(GpuUse use) {
  if (use.order == nullptr) imports_.close_later(std::move(use.memory));
}

}  // namespace memlease::internal
