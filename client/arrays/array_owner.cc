#include "client/arrays/array_owner.h"

#include <algorithm>
#include <cstddef>

#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

absl::Status ArrayOwner::leave_some(std::span<const Departure>& departures,
                                    InterruptCheck interrupt) {
  const std::size_t some = std::min(departures.size(), wire::kMostDepartures);
  crash_point("leave.begin");
  auto answer = session().control().leave(departures.first(some), interrupt);
  crash_point("leave.answered");
  departures = departures.subspan(some);
  // Any other error changes nothing: the daemon has gone, or does not know us, and so they are
  // left.
  return interrupt_of(answer) == nullptr ? absl::OkStatus() : answer;
}

absl::Status ArrayOwner::leave(std::span<const Departure> departures, InterruptCheck interrupt) {
  absl::Status interrupted;
  while (!departures.empty() && !session().control().silent()) {
    interrupted.Update(leave_some(departures, interrupt));
  }
  for (const Departure& later : departures) depart(later.array, later.opens, {});
  return interrupted;
}

}  // namespace memlease::internal
