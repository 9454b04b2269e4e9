// An array whose writer is one process alone (CreateOptions::writer), in several processes.
#include <chrono>
#include <string>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class ExclusiveWriter : public ::testing::Test {
 protected:
  ExclusiveWriter() {
    for (Peer* peer : {&owner_, &next_, &other_}) must(peer->ask("connect"));
    must(owner_.ask("create a 3 600 64 persistent exclusive"));
  }
  static void must(const Answer& answer) { ASSERT_TRUE(answer.ok()) << answer.describe(); }
  // At once, and `owner` is the reason.
  static void expect_refused(Peer& writer, const Peer& owner) {
    const auto start = Clock::now();
    const Answer answer = writer.ask("write a 15000");
    EXPECT_EQ(answer.code, "Denied") << answer.describe();
    EXPECT_THAT(answer.text, HasSubstr(fmt::format("pid {} (", owner.pid())));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  }
  // The daemon may not have seen a process's end yet.
  static void expect_becomes_writer(Peer& writer) {
    const auto end = Clock::now() + std::chrono::seconds(10);
    Answer answer = writer.ask("put a 15000");
    while (answer.code == "Denied" && Clock::now() < end) {
      std::this_thread::yield();
      answer = writer.ask("put a 15000");
    }
    EXPECT_TRUE(answer.ok()) << answer.describe();
  }

  PrivateDaemon daemon_{{"--log-level=warning"}};
  Peer owner_{daemon_.directory()};
  Peer next_{daemon_.directory()};
  Peer other_{daemon_.directory()};
};

TEST_F(ExclusiveWriter, IsTheCreatorBeforeItsFirstWriteAndAfterIt) {
  expect_refused(other_, owner_);
  must(owner_.ask("put a 5000"));
  expect_refused(other_, owner_);
  must(other_.ask("read a 0 5000"));
  must(owner_.ask("write a 5000"));
  expect_refused(other_, owner_);
  must(owner_.ask("fill a"));
  must(owner_.ask("publish a"));
}

TEST_F(ExclusiveWriter, IsTheNextThatWritesOnceItHasClosedTheArray) {
  must(owner_.ask("put a 5000"));
  must(owner_.ask("close a"));
  must(next_.ask("put a 5000"));
  expect_refused(other_, next_);
  expect_refused(owner_, next_);
}

TEST_F(ExclusiveWriter, IsTheNextThatWritesOnceItHasDied) {
  must(owner_.ask("put a 5000"));
  must(owner_.ask("write a 5000"));
  owner_.kill();
  expect_becomes_writer(next_);
  expect_refused(other_, next_);
}

}  // namespace
}  // namespace memlease::testing
