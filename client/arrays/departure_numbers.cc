#include "client/arrays/departure_numbers.h"

namespace memlease::internal {

DepartureNumbers::Told DepartureNumbers::begin(std::span<const Departure> departures) {
  Told told;
  told.departures.reserve(departures.size());
  const wire::MutexLock lock(mutex_);
  for (Departure departure : departures) {
    if (departure.number == 0) {
      departure.number = ++last_;
      in_doubt_.insert(departure.number);
    } else if (!in_doubt_.contains(departure.number)) {
      continue;
    }
    told.departures.push_back(departure);
  }
  while (!in_doubt_.empty() && last_ - *in_doubt_.begin() >= wire::kDeparturesInDoubt) {
    in_doubt_.erase(in_doubt_.begin());
  }
  told.answered_below = in_doubt_.empty() ? last_ + 1 : *in_doubt_.begin();
  return told;
}

void DepartureNumbers::end(std::span<const Departure> told) {
  const wire::MutexLock lock(mutex_);
  for (const Departure& departure : told) in_doubt_.erase(departure.number);
}

}  // namespace memlease::internal
