// `memleasectl trace`: what goes on for a while, as a file that ui.perfetto.dev opens.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/ctl/connection.h"

namespace memlease::ctl {

struct TraceOptions {
  std::string file;
  double duration_s = 10;
  double rate_hz = 20;  // of samples, at most
};

// Samples what the daemon sees, which costs the processes that use arrays nothing; for so long, or
// until the user ends it, or the daemon ends. The file is whole in any case.
absl::Status write_trace(const Connection& daemon, const Options& options,
                         const TraceOptions& wanted);

}  // namespace memlease::ctl
