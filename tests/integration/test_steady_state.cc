// In steady state nothing calls anybody: not the daemon, not the kernel.
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

constexpr std::uint64_t kCycles = 1'000'000;

class SteadyState : public ::testing::Test {
 protected:
  void SetUp() override {
    for (Peer* peer : {&owner_, &worker_}) ASSERT_TRUE(peer->ask("connect").ok());
    ASSERT_TRUE(owner_.ask("create a 3 600 512 persistent").ok());
    ASSERT_TRUE(owner_.ask("put a 1000").ok());
  }
  void expect_quiet(const Answer& answer) {
    ASSERT_TRUE(answer.ok()) << answer.describe();
    double seconds = 0;
    std::uint64_t looks = 0;
    std::uint64_t others = 0;
    int first_other = 0;
    std::istringstream(answer.text) >> looks >> others >> first_other >> seconds;
    fmt::print("{} cycles in {} s, {} looks at the socket\n", kCycles, seconds, looks);
    EXPECT_EQ(others, 0U) << "the first one was system call " << first_other;
    EXPECT_LE(static_cast<double>(looks), seconds + 1);
  }

  PrivateDaemon daemon_{{"--log-level=warning"}};
  Peer owner_{daemon_.directory()};
  Peer worker_{daemon_.directory()};
};

TEST_F(SteadyState, ReaderAndWriterNeedNoKernel) {
  // Each has met the other: rows are mapped, ownership has moved.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(owner_.ask("put a 1000").ok());
    ASSERT_TRUE(worker_.ask("read a 0 1000").ok());
    ASSERT_TRUE(worker_.ask("release a").ok());
  }
  owner_.say(fmt::format("steady_write a {}", kCycles));
  worker_.say(fmt::format("steady_read a {}", kCycles));
  expect_quiet(worker_.answer());
  expect_quiet(owner_.answer());
  // They did what they seem to have done.
  Peer late(daemon_.directory());
  ASSERT_TRUE(late.ask("connect").ok());
  EXPECT_GT(late.ask("version a").number(), kCycles);
}

// Also in a process that has never read the array.
TEST_F(SteadyState, ViewsThatAreKeptForACycleNeedNoKernel) {
  owner_.say(fmt::format("steady_keep a {}", kCycles));
  expect_quiet(owner_.answer());
}

TEST_F(SteadyState, ACallOfTheKernelIsNoticed) {
  const Answer answer = worker_.ask("steady_call 7");
  ASSERT_TRUE(answer.ok()) << answer.describe();
  EXPECT_EQ(answer.number(1), 7U) << answer.text;
}

// How often the daemon's event loop, which is its main thread, has woken.
std::uint64_t wakeups(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/status", pid, pid));
  for (std::string word; file >> word;) {
    std::uint64_t count = 0;
    if (word == "voluntary_ctxt_switches:" && file >> count) return count;
  }
  ADD_FAILURE() << "the daemon has gone";
  return 0;
}

// With idle sessions connected. After the last call a few things are still put away; then the
// daemon's own thread sleeps without an end. (gRPC has a timer of its own.)
TEST_F(SteadyState, IdleDaemonSleeps) {
  for (int window = 0; window < 5; ++window) {
    const std::uint64_t before = wakeups(daemon_.pid());
    std::this_thread::sleep_for(std::chrono::seconds(2));
    if (wakeups(daemon_.pid()) == before) return;
  }
  ADD_FAILURE() << "the event loop wakes again and again, with nothing to do";
}

}  // namespace
}  // namespace memlease::testing
