// A reader is stopped in the middle of a read: the writer is told so in time, or goes on, and the
// bytes under the reader never change.
#include <signal.h>

#include <chrono>
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::ContainsRegex;
using Clock = std::chrono::steady_clock;

class StoppedReader : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    for (Peer* peer : {&writer_, &reader_, &other_}) ASSERT_TRUE(peer->ask("connect").ok());
    ASSERT_TRUE(writer_.ask(fmt::format("create a {} 600 8192 session", GetParam())).ok());
    ASSERT_TRUE(writer_.ask("put a 1000").ok());
  }
  // It holds the current version, and says and hears no more.
  void stop_reading() {
    ASSERT_TRUE(reader_.ask("read a 0 1000").ok());
    reader_.signal(SIGSTOP);
    ASSERT_EQ(reader_.wait_for_signal(), SIGSTOP);
  }
  void go_on_reading() {
    reader_.signal(SIGCONT);
    const Answer verified = reader_.ask("verify a");
    EXPECT_TRUE(verified.ok()) << verified.describe();
    EXPECT_EQ(verified.number(), 1);
    EXPECT_TRUE(reader_.ask("release a").ok());
  }
  // The writer finds no slot and says who has them; in time.
  void expect_refusal() {
    const auto start = Clock::now();
    const Answer refused = writer_.ask("write a 300");
    const std::chrono::duration<double> took = Clock::now() - start;
    EXPECT_EQ(refused.code, "NoFreeSlot") << refused.describe();
    EXPECT_THAT(refused.text,
                ContainsRegex(fmt::format("pid {} .[^()]*memlease_peer [^()]*. reads version 1",
                                          reader_.pid())));
    EXPECT_GT(took.count(), 0.29);
    EXPECT_LT(took.count(), 1.0);
  }

  PrivateDaemon daemon_{{"--log-level=warning"}};
  Peer writer_{daemon_.directory()};
  Peer reader_{daemon_.directory()};
  Peer other_{daemon_.directory()};
};

using StoppedReaderOfOneSlot = StoppedReader;
TEST_P(StoppedReaderOfOneSlot, StopsTheWriterForItsDeadline) {
  stop_reading();
  for (int round = 0; round < 3; ++round) {
    expect_refusal();
    // The mark is taken back: others read on.
    const Answer read = other_.ask("read a 0 1000");
    EXPECT_TRUE(read.ok()) << read.describe();
    EXPECT_EQ(read.number(), 1);
    EXPECT_TRUE(other_.ask("release a").ok());
  }
  go_on_reading();
  const Answer put = writer_.ask("put a 1000");
  EXPECT_TRUE(put.ok()) << put.describe();
  EXPECT_EQ(put.number(), 2);
}
INSTANTIATE_TEST_SUITE_P(Slots, StoppedReaderOfOneSlot, ::testing::Values(1));

using StoppedReaderOfMore = StoppedReader;
TEST_P(StoppedReaderOfMore, DoesNotStopTheWriter) {
  stop_reading();
  for (std::uint64_t version = 2; version < 1000; ++version) {
    // With two slots the stopped reader's and the current one are all there are.
    if (GetParam() == 2 && version == 3) return go_on_reading();
    const Answer put = writer_.ask("put a 0");
    ASSERT_TRUE(put.ok()) << put.describe();
    ASSERT_EQ(put.number(), version);
  }
  const Answer read = other_.ask("read a 0 1000");
  EXPECT_EQ(read.number(), 999) << read.describe();
  go_on_reading();
}
TEST_P(StoppedReaderOfMore, MayTakeTheLastFreeSlot) {
  stop_reading();
  // The other reader holds what the first one leaves.
  for (std::uint32_t i = 1; i < GetParam(); ++i) {
    ASSERT_TRUE(writer_.ask("put a 1000").ok());
    ASSERT_TRUE(other_.ask("read a 0 1000").ok());
  }
  expect_refusal();
  ASSERT_TRUE(other_.ask("verify a").ok());
  // A stopped process that is killed lets go.
  reader_.kill();
  const Answer put = writer_.ask("put a 2000");
  EXPECT_TRUE(put.ok()) << put.describe();
}
INSTANTIATE_TEST_SUITE_P(Slots, StoppedReaderOfMore, ::testing::Values(2, 3));

}  // namespace
}  // namespace memlease::testing
