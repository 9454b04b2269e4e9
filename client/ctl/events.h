// `memleasectl events`: what has happened in the daemon, and what happens from now on.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/ctl/connection.h"
#include "memlease/v1/admin.pb.h"

namespace memlease::ctl {

struct EventsOptions {
  std::uint64_t since = 0;  // events with a greater number
  bool follow = false;      // goes on until the daemon ends
};

// "created".
std::string name_of(v1::HistoryEvent::Kind kind);

// kInvalidArgument for a `since` of another run of the daemon.
absl::Status show_events(const Connection& daemon, const Options& options,
                         const EventsOptions& wanted);

}  // namespace memlease::ctl
