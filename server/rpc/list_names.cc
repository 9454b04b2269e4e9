#include "server/rpc/list_names.h"

#include <utility>

#include "server/core/name_collector.h"

namespace memlease::server {

std::vector<std::string> list_names(ServiceHost& host, const PeerIdentity& viewer,
                                    bool with_replicas,
                                    absl::FunctionRef<bool(std::string_view)> matches) {
  std::vector<std::string> found;
  NameCollector collector(viewer, with_replicas);
  while (!collector.done()) {
    std::vector<std::string> names;
    host.with_broker([&](Broker& broker) { names = collector.step(broker); });
    for (std::string& name : names) {
      if (matches(name)) found.push_back(std::move(name));
    }
  }
  return found;
}

}  // namespace memlease::server
