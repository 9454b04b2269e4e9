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

// What a bystander's calls take at rest, beside a flood of another daemon, and beside that of this
// one: the second is the machine's part, whose processors a flood takes as well.
struct TimesBesideFlood {
  CallTimes idle;
  CallTimes elsewhere;
  CallTimes flooded;
};
// In so many turns, so that what else the machine does is the same for all; of each the medians.
TimesBesideFlood measure_in_turn(std::uint64_t turns, const std::function<CallTimes()>& idle,
                                 const std::function<CallTimes()>& elsewhere,
                                 const std::function<CallTimes()>& flooded);
// The goal, as far as the machine has a processor for the flood.
void expect_little_beside_flood(const TimesBesideFlood& times);

}  // namespace memlease::testing
