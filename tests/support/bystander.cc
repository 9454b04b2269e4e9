#include "tests/support/bystander.h"

#include <thread>

#include "gtest/gtest.h"

namespace memlease::testing {

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

}  // namespace memlease::testing
