// Many clients die, or are stopped, at random moments of random calls; those who stand by never
// notice, and the daemon's books come to nothing. MEMLEASE_STORM_SEED repeats a run,
// MEMLEASE_STORM_KILLS sets its length.
#include <signal.h>

#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/number_from.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using std::chrono::microseconds;

TEST(KillStorm, LeavesBystandersAndBooksAlone) {
  const std::uint64_t seed = number_from("MEMLEASE_STORM_SEED", std::random_device{}());
  const std::uint64_t kills = number_from("MEMLEASE_STORM_KILLS", 300);
  SCOPED_TRACE(fmt::format("MEMLEASE_STORM_SEED={}", seed));
  fmt::print("seed {}, {} kills\n", seed, kills);
  std::mt19937_64 random(seed);

  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  const std::size_t memfds = daemon.memfds();
  {
    // One array of each kind, and four who read one each all the time.
    Peer owner(daemon.directory());
    ASSERT_TRUE(owner.ask("connect").ok());
    std::deque<Peer> bystanders;
    std::string names;
    for (const std::uint32_t slots : {1U, 2U, 3U, 5U}) {
      const std::string name = fmt::format("shared{}", slots);
      names += " " + name;
      ASSERT_TRUE(owner.ask(fmt::format("create {} {} 600 8192 persistent", name, slots)).ok());
      ASSERT_TRUE(owner.ask(fmt::format("put {} 1000", name)).ok());
      ASSERT_TRUE(bystanders.emplace_back(daemon.directory()).ask("connect").ok());
      ASSERT_TRUE(bystanders.back().ask("watch " + name).ok());
    }
    // Four rage at a time; each dies at some moment of its first 5 ms.
    const auto next = [&](std::unique_ptr<Peer>& victim) {
      victim = std::make_unique<Peer>(daemon.directory());
      victim->say("connect");
      victim->say(fmt::format("storm {}{}", random(), names));
    };
    std::vector<std::unique_ptr<Peer>> victims(4);
    for (auto& victim : victims) next(victim);
    for (std::uint64_t i = 0; i < kills; ++i) {
      auto& victim = victims[i % victims.size()];
      // Some die while they start and attach, before anything else.
      for (int due = random() % 8 == 0 ? 0 : 2; due > 0; --due) {
        ASSERT_TRUE(victim->answer().ok()) << "kill " << i;
      }
      std::this_thread::sleep_for(microseconds(random() % 5000));
      ASSERT_EQ(victim->wait_for_signal(0), 0) << "victim " << i << " ended by itself";
      if (random() % 8 == 0) {  // some are stopped first, and some of these go on once more
        victim->signal(SIGSTOP);
        std::this_thread::sleep_for(microseconds(random() % 3000));
        if (random() % 2 == 0) victim->signal(SIGCONT);
      }
      victim->kill();
      next(victim);
    }
    for (auto& victim : victims) victim->kill();
    for (std::size_t i = 0; i < bystanders.size(); ++i) {
      const Answer watched = bystanders[i].ask("unwatch shared" + std::string(1, "1235"[i]));
      EXPECT_TRUE(watched.ok()) << watched.describe();
      fmt::print("bystander {}: {} (reads, last version, deaths seen)\n", i, watched.text);
      EXPECT_GT(watched.number(), 100);
    }
    for (const char* name : {"shared1", "shared2", "shared3", "shared5"}) {
      const Answer put = owner.ask(fmt::format("put {} 2000", name));
      EXPECT_TRUE(put.ok()) << put.describe();
      EXPECT_TRUE(owner.ask(fmt::format("withdraw {}", name)).ok());
    }
  }
  EXPECT_EQ(daemon.unsettled(), "");
  EXPECT_LE(daemon.memfds(), memfds + 1) << "but for the page on which they waited for their turn";
}

}  // namespace
}  // namespace memlease::testing
