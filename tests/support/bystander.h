// Somebody who has nothing to do with what a test does to the daemon, and calls it meanwhile: how
// long do these calls take, and does one fail? A process of its own. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "tests/support/call_times.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {

class Bystander {
 public:
  // Connects; that it cannot is a test failure.
  Bystander(const PrivateDaemon& daemon, const Peer::User& user);

  // While `fn` runs. A call that fails is a test failure.
  CallTimes during(const std::function<void()>& fn);
  // While nothing happens for so long.
  CallTimes idle(std::chrono::milliseconds time);

 private:
  Peer peer_;
};

}  // namespace memlease::testing
