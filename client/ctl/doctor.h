// `memleasectl doctor`: every check with its result, reason and remedy.
#pragma once

#include "client/ctl/connection.h"

namespace memlease::ctl {

// Returns the exit code: kFailure if a check failed. Warnings and notes do not count.
int run_doctor(const Options& options);

}  // namespace memlease::ctl
