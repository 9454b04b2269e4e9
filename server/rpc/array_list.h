// What lists of arrays give, page by page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/core/array_collector.h"
#include "server/rpc/service_host.h"

namespace memlease::server {

// Of a page, beside the last one of what it has. A user may have some 70 of them that nobody reads.
constexpr std::size_t kBytesOfPage = std::size_t{64} << 10;

// Is this name wanted? Asked while others have the core, and may take its time.
using Matches = absl::FunctionRef<bool(std::string_view name)>;

// The collector's next step, without the names that are not wanted.
std::vector<ArrayCollector::Found> next_matches(ServiceHost& host, ArrayCollector& collector,
                                                Matches matches);

// Calls `visit` with the core for one array after the other that the collector finds, until it says
// that the page is full. Others have the core after some of them. Returns the place where the next
// page begins; empty: that was all.
using Visit = absl::FunctionRef<bool(Broker& broker, const Array& array)>;
std::string visit_page(ServiceHost& host, ArrayCollector& collector, Matches matches, Visit visit);

}  // namespace memlease::server
