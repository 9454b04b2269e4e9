// The daemon is stopped, or slow: whatever needs nothing of it goes on.
#include <memlease/memlease.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/pattern.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWords = 64;

class StoppedDaemon : public ::testing::Test {
 protected:
  StoppedDaemon() {
    CreateOptions options;
    options.name = "a";
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {kWords};
    options.lifetime = Lifetime::Persistent;
    array.emplace(client.create(options));
    WriteLease first = array->write();
    fill(first);
    first.publish();
    run("connect");
  }
  ~StoppedDaemon() override {
    daemon.signal(SIGCONT);
    client.close();
  }
  ConnectOptions here() const {
    ConnectOptions options;
    options.directory = daemon.directory();
    options.start = false;
    return options;
  }
  // What the other process checks when it reads.
  static void fill(const WriteLease& lease) {
    Pattern pattern(static_cast<std::uint64_t*>(lease.data()), kWords);
    pattern.fill_first_half(lease.version(), static_cast<std::uint64_t>(getpid()));
    pattern.fill_second_half();
  }
  void run(const std::string& command) {
    const Answer answer = other.ask(command);
    EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
  }
  // A call would take until the daemon goes on, or 10 s.
  template <typename Step>
  void expect_no_call(const char* what, Step step) {
    const std::uint64_t calls = client.calls();
    const auto start = Clock::now();
    step();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5)) << what;
    EXPECT_EQ(client.calls(), calls) << what;
  }

  PrivateDaemon daemon{{"--log-level=warning"}};
  Peer other{daemon.directory()};
  Client client = Client::connect(here());
  std::optional<Array> array;
};

// Even where the writer is one that this process has never met.
TEST_F(StoppedDaemon, DoesNotHoldUpTheEndOfLeasesAndViews) {
  ReadLease lease = array->read();
  Pin view = array->read().pin();
  run("put a 1000");
  daemon.signal(SIGSTOP);
  expect_no_call("release of a lease", [&] { lease.release(); });
  expect_no_call("end of a view", [&] { view.reset(); });
  daemon.signal(SIGCONT);
  for (int i = 0; i < 4; ++i) run("put a 1000");
}

// Even where a reader has come since the write began.
TEST_F(StoppedDaemon, DoesNotHoldUpAPublication) {
  WriteLease lease = array->write();
  fill(lease);
  run("read a 0 1000");
  daemon.signal(SIGSTOP);
  expect_no_call("publish", [&] { lease.publish(); });
  daemon.signal(SIGCONT);
  run("read a 1 1000");
}

}  // namespace
}  // namespace memlease::testing
