#include "server/rpc/array_list.h"

#include <cstddef>
#include <iterator>

namespace memlease::server {
namespace {

constexpr std::size_t kLooksPerStep = 256;

}  // namespace

std::vector<ArrayCollector::Found> next_matches(ServiceHost& host, ArrayCollector& collector,
                                                Matches matches) {
  std::vector<ArrayCollector::Found> found;
  host.with_broker([&](Broker& broker) { found = collector.step(broker); });
  std::erase_if(found, [&](const ArrayCollector::Found& one) { return !matches(one.name); });
  return found;
}

std::string visit_page(ServiceHost& host, ArrayCollector& collector, Matches matches, Visit visit) {
  while (!collector.done()) {
    const auto found = next_matches(host, collector, matches);
    bool full = false;
    auto next = found.begin();
    while (next != found.end() && !full) {
      host.with_broker([&](Broker& broker) {
        std::size_t looks = 0;
        while (looks < kLooksPerStep && next != found.end() && !full) {
          const Array* const array = collector.find(broker, *next++);
          looks += array == nullptr ? 1 : looks_at(*array);
          if (array != nullptr) full = visit(broker, *array);
        }
      });
    }
    if (full && !(next == found.end() && collector.done())) return std::prev(next)->place();
  }
  return "";
}

}  // namespace memlease::server
