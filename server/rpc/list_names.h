// What lists of names give.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/rpc/service_host.h"

namespace memlease::server {

// The names that the viewer may read, in their order, and that `matches` takes: it is asked while
// others have the core, and may take its time.
std::vector<std::string> list_names(ServiceHost& host, const PeerIdentity& viewer,
                                    bool with_replicas,
                                    absl::FunctionRef<bool(std::string_view)> matches);

}  // namespace memlease::server
