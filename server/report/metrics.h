// The daemon's metrics by name: what `memleasectl metrics` prints, and what is served to
// Prometheus. Names, labels and units are for others' dashboards and alerts: they change as the
// rest of the interface does. docs/metrics.md lists them, deploy/prometheus/ uses them. Pure, but
// for what it asks the kernel about this process.
#pragma once

#include <cstddef>
#include <string>

#include "server/core/figures.h"
#include "server/gate/gate_cuts.h"
#include "server/rpc/call_errors.h"
#include "server/rpc/service_host.h"

namespace memlease::server {

// Mechanisms that the daemon does without.
struct Degradations {
  bool no_huge_pages = false;  // wanted, and the system has none, or too few for the last segment
  bool hosts_wait = false;     // event_waits = "host"
  std::size_t lost_files = 0;  // of those that clients find the daemon by
  bool no_memory = false;      // for the daemon itself: nothing new begins
};

// 80 series, and 12 for each device. Takes microseconds.
std::string metrics_text(const Figures& figures, const DaemonFacts& facts,
                         const Degradations& degradations, const CallErrors& errors,
                         const GateCuts& cuts);

}  // namespace memlease::server
