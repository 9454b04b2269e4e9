#include "tests/support/bystander.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/percentile.h"

namespace memlease::testing {
namespace {

CallTimes median_of(const std::vector<CallTimes>& turns) {
  CallTimes all;
  std::vector<std::uint64_t> p50_us;
  std::vector<std::uint64_t> p99_us;
  for (const CallTimes& turn : turns) {
    all.calls += turn.calls;
    p50_us.push_back(turn.p50_us);
    p99_us.push_back(turn.p99_us);
  }
  all.p50_us = percentile(p50_us, 50);
  all.p99_us = percentile(p99_us, 50);
  return all;
}

}  // namespace

Bystander::Bystander(const PrivateDaemon& daemon, const Peer::User& user)
    : peer_(daemon.directory(), user) {
  const Answer answer = peer_.ask("connect");
  EXPECT_TRUE(answer.ok()) << answer.describe();
}

CallTimes Bystander::during(const std::function<void()>& fn) {
  EXPECT_TRUE(peer_.ask("time_calls bystander").ok());
  fn();
  const Answer answer = peer_.ask("calls_timed");
  EXPECT_TRUE(answer.ok()) << "a call of a bystander failed: " << answer.describe();
  if (!answer.ok()) return {};
  return {answer.number(0), answer.number(1), answer.number(2)};
}

CallTimes Bystander::idle(std::chrono::milliseconds time) {
  return during([time] { std::this_thread::sleep_for(time); });
}

TimesBesideFlood measure_in_turn(std::uint64_t turns, const std::function<CallTimes()>& idle,
                                 const std::function<CallTimes()>& elsewhere,
                                 const std::function<CallTimes()>& flooded) {
  std::vector<CallTimes> idle_turns;
  std::vector<CallTimes> elsewhere_turns;
  std::vector<CallTimes> flooded_turns;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    idle_turns.push_back(idle());
    elsewhere_turns.push_back(elsewhere());
    flooded_turns.push_back(flooded());
  }
  return {median_of(idle_turns), median_of(elsewhere_turns), median_of(flooded_turns)};
}

void expect_little_beside_flood(const TimesBesideFlood& times) {
  const std::uint64_t idle = times.idle.p99_us;
  EXPECT_LE(times.flooded.p99_us, 2 * std::max(idle, times.elsewhere.p99_us));
  EXPECT_LE(times.flooded.p99_us, 5 * idle) << "even where daemon and flood take all processors";
}

}  // namespace memlease::testing
