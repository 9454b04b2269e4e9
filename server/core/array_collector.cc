#include "server/core/array_collector.h"

#include <charconv>
#include <utility>

namespace memlease::server {
namespace {

constexpr char kIdMark = '#';  // that no name has

std::string place_of(wire::ArrayId id) { return kIdMark + std::to_string(wire::to_int(id)); }

}  // namespace

std::string ArrayCollector::Found::place() const { return withdrawn ? place_of(id) : name; }

ArrayCollector::ArrayCollector(PeerIdentity viewer, Kinds kinds, std::string prefix,
                               std::string_view place)
    : viewer_(std::move(viewer)), kinds_(kinds), prefix_(std::move(prefix)) {
  if (!place.starts_with(kIdMark)) {
    last_ = place;
    return;
  }
  std::uint64_t id = 0;  // also of a place that is none
  std::from_chars(place.data() + 1, place.data() + place.size(), id);
  last_id_ = wire::ArrayId{id};
  done_ = kinds_ != Kinds::kAll;  // who sees no arrays without a name has been given no such place
}

std::vector<ArrayCollector::Found> ArrayCollector::step(const Broker& broker) {
  std::vector<Found> found;
  if (last_id_) {
    step_withdrawn(broker, found);
  } else {
    step_named(broker, found);
  }
  return found;
}

void ArrayCollector::step_named(const Broker& broker, std::vector<Found>& found) {
  const auto& named = broker.catalog().named();
  auto next = last_ < prefix_ ? named.lower_bound(prefix_) : named.upper_bound(last_);
  const auto ends = [&] { return next == named.end() || !(*next)->name.starts_with(prefix_); };
  for (std::size_t i = 0; i < kArraysPerStep && !ends(); ++i, ++next) {
    const Array& array = **next;
    last_ = array.name;
    if (shows(broker, array)) found.push_back({array.id, array.name, false});
  }
  if (!ends()) return;
  if (kinds_ == Kinds::kAll && !broker.catalog().withdrawn().empty()) {
    last_id_ = wire::ArrayId{0};
  } else {
    done_ = true;
  }
}

void ArrayCollector::step_withdrawn(const Broker& broker, std::vector<Found>& found) {
  const auto& withdrawn = broker.catalog().withdrawn();
  auto next = withdrawn.upper_bound(*last_id_);
  for (std::size_t i = 0; i < kArraysPerStep && next != withdrawn.end(); ++i, ++next) {
    const Array& array = *broker.catalog().find(*next);
    last_id_ = array.id;
    if (array.name.starts_with(prefix_) && shows(broker, array)) {
      found.push_back({array.id, array.name, true});
    }
  }
  done_ = next == withdrawn.end();
}

std::string ArrayCollector::place() const { return last_id_ ? place_of(*last_id_) : last_; }

const Array* ArrayCollector::find(const Broker& broker, const Found& found) const {
  const Array* const array = broker.catalog().find(found.id);
  const bool shown =
      array != nullptr && array->withdrawn == found.withdrawn && shows(broker, *array);
  return shown ? array : nullptr;
}

bool ArrayCollector::shows(const Broker& broker, const Array& array) const {
  if (array.withdrawn) return may_read(viewer_, array.domain);
  return (kinds_ != Kinds::kHomes || !array.rare().home) && broker.shows(viewer_, array);
}

}  // namespace memlease::server
