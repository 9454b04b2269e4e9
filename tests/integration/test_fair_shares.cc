// Ten users, one of whom has very many clients that call all the time: what is left for each of the
// others.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/goal.h"
#include "tests/support/peer.h"
#include "tests/support/percentile.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

constexpr uid_t kFirstUid = 4001;
constexpr uid_t kOthers = 9;
constexpr Peer::User kGreedy{4100, 4100};

std::unique_ptr<Peer> connected(const PrivateDaemon& daemon, const Peer::User& user) {
  auto peer = std::make_unique<Peer>(daemon.directory(), user);
  const Answer answer = peer->ask("connect");
  EXPECT_TRUE(answer.ok()) << answer.describe();
  return peer;
}

// What each of the others got.
struct Shares {
  std::vector<std::uint64_t> calls, p50_us, p99_us;
};

class FairShares : public ::testing::Test {
 protected:
  FairShares() {
    for (uid_t i = 0; i < kOthers; ++i) {
      others_.push_back(connected(daemon_, {kFirstUid + i, kFirstUid + i}));
    }
  }

  void measure(Shares& shares) {
    for (const auto& other : others_) {
      EXPECT_TRUE(other->ask(fmt::format("time_calls of/{}", other->pid())).ok());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(goal(100, 2'000)));
    for (const auto& other : others_) {
      const Answer answer = other->ask("calls_timed");
      ASSERT_TRUE(answer.ok()) << answer.describe();
      shares.calls.push_back(answer.number(0));
      shares.p50_us.push_back(answer.number(1));
      shares.p99_us.push_back(answer.number(2));
    }
  }
  // Returns how many calls the others' competitor made.
  std::uint64_t measure_beside(Peer& greedy, Shares& shares) {
    const Answer begun = greedy.ask(fmt::format("time_calls_of {} his", goal(20, 1'000)));
    EXPECT_TRUE(begun.ok()) << begun.describe();
    measure(shares);
    const Answer ended = greedy.ask("calls_timed");
    EXPECT_TRUE(ended.ok()) << ended.describe();
    return ended.ok() ? ended.number() : 0;
  }

  const std::vector<std::string> flags_{"--socket-mode=0666", "--log-level=warning",
                                        "--quota-sessions=2000"};
  const PrivateDaemon daemon_{flags_};
  const PrivateDaemon other_daemon_{flags_};
  std::vector<std::unique_ptr<Peer>> others_;
};

// Beside the same crowd of another daemon, which takes as much of the machine's processors.
TEST_F(FairShares, ManyClientsOfOneUserTakeLittleFromOthers) {
  const auto greedy = connected(daemon_, kGreedy);
  const auto elsewhere = connected(other_daemon_, kGreedy);
  Shares alone, beside_other, beside;
  std::uint64_t his = 0;
  for (std::uint64_t turn = 0; turn < goal(1, 5); ++turn) {
    measure(alone);
    measure_beside(*elsewhere, beside_other);
    his += measure_beside(*greedy, beside);
  }
  const auto calls = [](Shares& shares) { return percentile(shares.calls, 50); };
  const auto late = [](Shares& shares) { return percentile(shares.p99_us, 50); };
  if (is_proving()) {
    EXPECT_GE(10 * calls(beside), 8 * calls(beside_other));
    EXPECT_LE(late(beside), 2 * late(beside_other));
  }
  reached(
      "{} users beside {} clients of one, which made {} calls: {} each (99 % within {} us), {} "
      "({}) "
      "beside the same of another daemon, {} ({}) alone",
      kOthers, goal(20, 1'000), his, calls(beside), late(beside), calls(beside_other),
      late(beside_other), calls(alone), late(alone));
}

}  // namespace
}  // namespace memlease::testing
