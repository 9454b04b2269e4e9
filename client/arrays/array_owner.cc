#include "client/arrays/array_owner.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

// Nothing of the call is to be told again: it has been done, or nobody knows this session any more.
bool is_final(const absl::Status& answer) {
  if (answer.ok()) return true;
  switch (wire::code_of(answer)) {
    case wire::ErrorCode::kInvalidArgument:
    case wire::ErrorCode::kDaemonLost:
    case wire::ErrorCode::kForkedClient:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool ArrayOwner::leave_some(std::span<const Departure>& departures, InterruptCheck interrupt,
                            absl::Status& interrupted) {
  const std::size_t some = std::min(departures.size(), wire::kMostDepartures);
  const auto [told, answered_below] = departure_numbers_.begin(departures.first(some));
  departures = departures.subspan(some);
  if (told.empty()) return true;
  crash_point("leave.begin");
  const auto answer = session().control().leave(told, answered_below, interrupt);
  crash_point("leave.answered");
  if (is_final(answer)) {
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
  return interrupted;
}

}  // namespace memlease::internal
