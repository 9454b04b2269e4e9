// `memleasectl top`: what goes on, again and again: rates of arrays, sessions and devices.
#pragma once

#include <chrono>

#include "client/ctl/connection.h"
#include "client/ctl/top_tables.h"

namespace memlease::ctl {

struct TopOptions {
  SortKey sort = SortKey::kRate;
  double interval_s = 0.5;
  bool once = false;  // one answer, after one interval; also in JSON and without a terminal
};

// Until the user ends it. Returns the exit code.
int run_top(const Options& options, const TopOptions& wanted);

}  // namespace memlease::ctl
