// How a test connects to a daemon of its own.
#pragma once

#include <memlease/client.h>

#include "tests/support/private_daemon.h"

namespace memlease::testing {

// To that daemon, or to none.
inline ConnectOptions options_for(const PrivateDaemon& daemon) {
  ConnectOptions options;
  options.directory = daemon.directory();
  options.start = false;
  return options;
}

}  // namespace memlease::testing
