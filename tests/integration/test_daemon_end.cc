// The daemon's end, wished for or not, as its clients see it.
#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/support/in_build.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

std::int64_t ms_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

TEST(DaemonKilled, EndsEveryWaitAtOnce) {
  PrivateDaemon daemon;
  Peer owner(daemon.directory());
  ASSERT_TRUE(owner.ask("connect").ok());
  for (const char* command :
       {"create a 3 600 512 session", "put a 1000", "read a 0 1000", "create one 1 600 512 session",
        "put one 1000", "read one 0 1000", "create busy 3 600 512 session", "write busy 1000"}) {
    ASSERT_TRUE(owner.ask(command).ok()) << command;
  }
  const std::vector<std::string> waits = {
      "read a 1 60000",        // for a version
      "write one 60000",       // for a slot
      "write busy 60000",      // for writer ownership
      "wait_for never 60000",  // for a name, in a call
  };
  std::vector<std::unique_ptr<Peer>> waiters;
  for (const std::string& wait : waits) {
    waiters.push_back(std::make_unique<Peer>(daemon.directory()));
    ASSERT_TRUE(waiters.back()->ask("connect").ok());
    waiters.back()->say(wait);
    EXPECT_EQ(waiters.back()->answer(300).kind, Answer::Kind::kSilent) << wait;
  }
  daemon.kill();
  const auto start = Clock::now();
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const Answer answer = waiters[i]->answer();
    EXPECT_EQ(answer.code, "DaemonLost") << waits[i] << ": " << answer.describe();
  }
  EXPECT_LT(ms_since(start), 1000);
  // Leases keep their bytes; all that is new fails, and publishing does.
  EXPECT_TRUE(owner.ask("verify a").ok());
  for (const char* command :
       {"read a 0 1000", "put a 1000", "update a 1000", "publish busy",
        "create b 3 600 512 session", "exists a", "list", "withdraw a", "wait_for a 1000"}) {
    const Answer answer = owner.ask(command);
    EXPECT_EQ(answer.code, "DaemonLost") << command << ": " << answer.describe();
  }
  EXPECT_TRUE(owner.ask("verify a").ok());
  EXPECT_TRUE(owner.ask("release a").ok());
  EXPECT_TRUE(owner.ask("close a").ok());
  EXPECT_EQ(owner.ask("connect").code, "DaemonUnavailable");
}

TEST(SecondDaemon, RefusesAndSaysWhoIsThere) {
  PrivateDaemon daemon;
  const Finished second =
      run_program({in_build("bin/memleased"), "--directory=" + daemon.directory()});
  EXPECT_EQ(second.exit_code, 73) << second.output;
  EXPECT_THAT(second.output, HasSubstr(fmt::format("pid {} (memleased)", daemon.pid())));
  Peer peer(daemon.directory());
  EXPECT_TRUE(peer.ask("connect").ok()) << "the first one must still serve";
}

TEST(Drain, WithoutLeasesEndsAtOnce) {
  PrivateDaemon daemon;
  Peer peer(daemon.directory());
  for (const char* command : {"connect", "create a 3 600 512 persistent", "put a 1000"}) {
    ASSERT_TRUE(peer.ask(command).ok()) << command;
  }
  const auto start = Clock::now();
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_LT(ms_since(start), 2000);
  EXPECT_EQ(peer.ask("read a 0 1000").code, "DaemonLost");
}

TEST(Drain, WaitsForLeasesAndGivesNoNewOnes) {
  PrivateDaemon daemon;
  Peer reader(daemon.directory());
  Peer writer(daemon.directory());
  Peer waiter(daemon.directory());
  for (Peer* peer : {&reader, &writer, &waiter}) ASSERT_TRUE(peer->ask("connect").ok());
  ASSERT_TRUE(writer.ask("create a 3 600 512 session").ok());
  ASSERT_TRUE(writer.ask("put a 1000").ok());
  ASSERT_TRUE(reader.ask("read a 0 1000").ok());
  ASSERT_TRUE(writer.ask("write a 1000").ok());
  waiter.say("read a 1 60000");
  EXPECT_EQ(waiter.answer(200).kind, Answer::Kind::kSilent);
  Peer name_waiter(daemon.directory());
  ASSERT_TRUE(name_waiter.ask("connect").ok());
  name_waiter.say("wait_for never 60000");
  EXPECT_EQ(name_waiter.answer(200).kind, Answer::Kind::kSilent);
  daemon.signal(SIGTERM);
  EXPECT_EQ(name_waiter.answer(5000).code, "DaemonLost");
  const Answer not_created = reader.ask("create b 3 600 512 session");
  EXPECT_EQ(not_created.code, "DaemonLost");
  EXPECT_THAT(not_created.text, StartsWith("the daemon is shutting down"));
  const Answer woken = waiter.answer();
  EXPECT_EQ(woken.code, "DaemonLost") << woken.describe();
  EXPECT_THAT(woken.text, HasSubstr("shutting down"));
  EXPECT_EQ(waiter.ask("read a 0 1000").code, "DaemonLost");
  Peer late(daemon.directory());
  // Nor new connections, not even over the session that is there.
  for (Peer* peer : {&late, &waiter}) {
    const Answer refused = peer->ask("connect");
    EXPECT_EQ(refused.code, "DaemonUnavailable") << refused.describe();
    EXPECT_THAT(refused.text, HasSubstr("is shutting down"));
  }
  EXPECT_EQ(daemon.wait(300), -1) << "it did not wait for two leases";
  ASSERT_TRUE(writer.ask("fill a").ok());
  EXPECT_TRUE(writer.ask("publish a").ok()) << "a write that was begun may end";
  EXPECT_EQ(daemon.wait(300), -1) << "it did not wait for the last lease";
  EXPECT_TRUE(reader.ask("verify a").ok());
  EXPECT_TRUE(reader.ask("release a").ok());
  EXPECT_EQ(daemon.wait(), 0);
}

TEST(Drain, EndsAtItsDeadline) {
  PrivateDaemon daemon({"--drain-timeout-s=1"});
  Peer reader(daemon.directory());
  for (const char* command :
       {"connect", "create a 3 600 512 session", "put a 1000", "read a 0 1000"}) {
    ASSERT_TRUE(reader.ask(command).ok()) << command;
  }
  const auto start = Clock::now();
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_GT(ms_since(start), 900);
  EXPECT_LT(ms_since(start), 3000);
  EXPECT_TRUE(reader.ask("verify a").ok());
}

TEST(IdleExit, ComesOnceNobodyNeedsTheDaemon) {
  PrivateDaemon daemon({"--idle-exit-s=1"});
  {
    Peer peer(daemon.directory());
    ASSERT_TRUE(peer.ask("connect").ok());
    EXPECT_EQ(daemon.wait(1500), -1) << "somebody is there";
    ASSERT_TRUE(peer.ask("create a 3 600 512 persistent").ok());
  }
  EXPECT_EQ(daemon.wait(1500), -1) << "a persistent array is there";
  Peer peer(daemon.directory());
  ASSERT_TRUE(peer.ask("connect").ok());
  ASSERT_TRUE(peer.ask("withdraw a").ok());
  peer.kill();
  const auto start = Clock::now();
  EXPECT_EQ(daemon.wait(), 0);
  EXPECT_GT(ms_since(start), 800);
  EXPECT_LT(ms_since(start), 3000);
}

}  // namespace
}  // namespace memlease::testing
