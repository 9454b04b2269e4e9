#include "server/core/name_collector.h"

#include <utility>

namespace memlease::server {

NameCollector::NameCollector(PeerIdentity viewer, bool with_replicas)
    : viewer_(std::move(viewer)), with_replicas_(with_replicas) {}

std::vector<std::string> NameCollector::step(const Broker& broker) {
  std::vector<std::string> names;
  const auto& named = broker.catalog().named();
  auto next = named.upper_bound(last_);  // no name is empty
  for (std::size_t i = 0; i < kArraysPerStep && next != named.end(); ++i, ++next) {
    const auto& [name, array] = *next;
    last_ = name;
    const bool wanted = with_replicas_ || !array->home;
    if (wanted && broker.shows(viewer_, *array)) names.push_back(name);
  }
  done_ = next == named.end();
  return names;
}

}  // namespace memlease::server
