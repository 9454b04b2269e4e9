// The commands that ask the daemon. Each prints its answer, or returns why there is none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ctl/connection.h"

namespace memlease::ctl {

// The columns that `ls` can be sorted by.
std::vector<std::string> sort_keys();
// `sort_key`: one of sort_keys(); empty: by name.
absl::Status list_arrays(const Connection& daemon, const Options& options,
                         const std::string& pattern, const std::string& sort_key);
absl::Status show_array(const Connection& daemon, const Options& options, const std::string& name);
absl::Status withdraw(const Connection& daemon, const Options& options, const std::string& name);

// An empty name: of all arrays.
absl::Status list_holders(const Connection& daemon, const Options& options,
                          const std::string& name);
absl::Status list_sessions(const Connection& daemon, const Options& options);
absl::Status evict(const Connection& daemon, const Options& options, std::uint32_t session);

// The daemon's metrics, in the text format of Prometheus.
absl::Status show_metrics(const Connection& daemon, const Options& options);
absl::Status show_status(const Connection& daemon, const Options& options);
// kBusy if the daemon answers but takes no new work.
absl::Status show_health(const Connection& daemon, const Options& options);

}  // namespace memlease::ctl
