// Many clients die, or are stopped, at random moments of random calls; those who stand by never
// notice, and the daemon's books come to nothing. MEMLEASE_STORM_SEED repeats a run,
// MEMLEASE_STORM_KILLS sets its length.
#include <memlease/memlease.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "tests/support/goal.h"
#include "tests/support/number_from.h"
#include "tests/support/options_for.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using std::chrono::microseconds;

TEST(KillStorm, LeavesBystandersAndBooksAlone) {
  const std::uint64_t seed = number_from("MEMLEASE_STORM_SEED", std::random_device{}());
  const std::uint64_t kills = number_from("MEMLEASE_STORM_KILLS", goal(300, 100'000));
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
  EXPECT_TRUE(eventually([&] {
    return daemon.memfds() <= memfds + 1 + PrivateDaemon::kSpareFiles;
  })) << "the page on which they waited for their turn, and those that are kept ready";
  reached("{} kills, nothing left; four bystanders without an error", kills);
}

// Who wants to write comes to its turn, whoever of those before it is stopped or dies, and nothing
// that was published is lost.
TEST(QueueStorm, EveryWriterComesToItsTurn) {
  const std::uint64_t seed = number_from("MEMLEASE_STORM_SEED", std::random_device{}());
  const std::uint64_t kills = number_from("MEMLEASE_STORM_KILLS", goal(300, 20'000)) / 4;
  SCOPED_TRACE(fmt::format("MEMLEASE_STORM_SEED={}", seed));
  fmt::print("seed {}, {} kills\n", seed, kills);
  std::mt19937_64 random(seed);
  constexpr std::size_t kWriters = 12;

  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  Client client = Client::connect(options_for(daemon));
  CreateOptions options;
  options.name = "a";
  options.dtype = dtype_of<std::uint64_t>();
  options.shape = {1 + kWriters};
  const Array array = client.create(options);
  {
    WriteLease lease = array.write();
    std::ranges::fill(lease.view<std::uint64_t, 1>(), 0);
    lease.publish();
  }

  std::vector<std::unique_ptr<Peer>> writers(kWriters);
  const auto begin = [&](std::size_t number) {
    writers[number] = std::make_unique<Peer>(daemon.directory());
    writers[number]->say("connect");
    writers[number]->say(fmt::format("queue a {}", 1 + number));
  };
  for (std::size_t number = 0; number < kWriters; ++number) begin(number);
  for (std::uint64_t i = 0; i < kills; ++i) {
    const std::size_t number = random() % kWriters;
    Peer& victim = *writers[number];
    for (int due = 2; due > 0; --due) ASSERT_TRUE(victim.answer().ok()) << "kill " << i;
    std::this_thread::sleep_for(microseconds(random() % 5000));
    ASSERT_EQ(victim.wait_for_signal(0), 0) << "writer " << number << " ended by itself";
    if (random() % 2 == 0) {
      victim.signal(SIGSTOP);
      std::this_thread::sleep_for(microseconds(random() % 3000));
    }
    victim.kill();
    begin(number);
  }
  // Those that are there still come to their turns, each of them.
  const auto counts = [&] {
    const ReadLease lease = array.read();
    const auto view = lease.view<std::uint64_t, 1>();
    return std::vector<std::uint64_t>(view.begin(), view.end());
  };
  const std::vector<std::uint64_t> before = counts();
  EXPECT_TRUE(eventually([&] {
    const std::vector<std::uint64_t> now = counts();
    return std::ranges::equal(now, before, std::ranges::greater{});
  }));
  for (const auto& writer : writers) {
    EXPECT_EQ(writer->wait_for_signal(0), 0) << "it ended by itself";
    writer->kill();
  }
  const std::vector<std::uint64_t> last = counts();
  EXPECT_EQ(last[0], std::accumulate(last.begin() + 1, last.end(), std::uint64_t{0}));
  reached("{} kills of {} writers, {} updates, none lost", kills, kWriters, last[0]);
}

}  // namespace
}  // namespace memlease::testing
