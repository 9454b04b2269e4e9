// The daemon is stopped between two answers that one call needs: the call ends with its deadline or
// with an interrupt, and what it had taken by then is given back, or asked for again.
#include <memlease/memlease.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "tests/support/words.h"

namespace memlease::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct InterruptedStep {};

class StoppedBetweenSteps : public ::testing::Test {
 public:
  ~StoppedBetweenSteps() override {
    go_on();
    client.close();
  }

 protected:
  StoppedBetweenSteps() {
    for (const char* command : {"connect", "create a 3 600 64 session", "put a 1000"}) {
      const Answer answer = other.ask(command);
      EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
    }
  }
  ConnectOptions here() {
    ConnectOptions options = options_for(daemon);
    options.check_interrupt = [this] { check(); };
    return options;
  }
  // What the daemon knows of this process's use of the array.
  template <typename Holds>
  bool held_here(Holds holds) {
    const auto holders = daemon.admin().list_holders("a");
    EXPECT_TRUE(holders.ok()) << holders.status();
    return holders.ok() && std::any_of(holders->holders().begin(), holders->holders().end(),
                                       [&](const auto& holder) {
                                         return holder.pid() == getpid() && holds(holder);
                                       });
  }
  // An opening by the name would bring what a read needs.
  Array open_without_row() const {
    CreateOptions options = words("a", 64);
    options.slots = options.max_slots = 3;
    options.mode = 0600;
    options.exist_ok = true;
    return client.create(options);
  }
  bool open_here() {
    return held_here([](const auto&) { return true; });
  }
  bool subscribed_here() {
    return held_here([](const auto& holder) { return holder.subscribed(); });
  }
  // The next call waits for its first answer until its first look at the user's check, in which the
  // daemon goes on until that answer `is_given`. For the next one it waits in vain, and its further
  // looks come to `then`.
  void stop_behind(const std::function<bool()>& is_given, const std::function<void()>& then) {
    check = [this, is_given, then, first = true]() mutable {
      if (!std::exchange(first, false)) return then();
      daemon.signal(SIGCONT);
      while (!is_given()) std::this_thread::yield();
      daemon.stop();
    };
    daemon.stop();
  }
  void go_on() {
    daemon.signal(SIGCONT);
    check = [] {};
  }
  template <typename Step>
  static void expect_soon(Step step) {
    const auto start = Clock::now();
    step();
    EXPECT_LT(Clock::now() - start, 5s);  // a file is waited for 10 s, an answer 30 s
  }

  PrivateDaemon daemon{{"--log-level=warning"}};
  Peer other{daemon.directory()};
  std::function<void()> check = [] {};
  Client client = Client::connect(here());
};

// Each has its subscription, and no page to map it from.
TEST_F(StoppedBetweenSteps, DoesNotHoldUpTheDeadlineOfAFirstRead) {
  const Array array = open_without_row();
  stop_behind([this] { return subscribed_here(); }, [] {});
  expect_soon([&] {
    const auto read = [&] { static_cast<void>(array.read({.timeout = 200ms})); };
    EXPECT_EQ(error_of(read), ErrorCode::Timeout);
  });
  go_on();
  EXPECT_EQ(array.read().version(), 1U);
}

TEST_F(StoppedBetweenSteps, DoesNotHoldUpTheInterruptOfAFirstRead) {
  const Array array = open_without_row();
  stop_behind([this] { return subscribed_here(); }, [] { throw InterruptedStep{}; });
  expect_soon([&] { EXPECT_THROW(static_cast<void>(array.read()), InterruptedStep); });
  go_on();
  EXPECT_EQ(array.read().version(), 1U);
}

// Once more, after the process has let the files go that came with the first answer.
TEST_F(StoppedBetweenSteps, DoesNotHoldUpTheInterruptOfAnOpening) {
  EXPECT_EQ(client.open("a").read().version(), 1U);
  EXPECT_TRUE(client.exists("a"));
  EXPECT_FALSE(open_here());
  stop_behind([this] { return open_here(); }, [] { throw InterruptedStep{}; });
  expect_soon([&] { EXPECT_THROW(static_cast<void>(client.open("a")), InterruptedStep); });
  go_on();
  EXPECT_TRUE(client.exists("a"));
  EXPECT_FALSE(open_here()) << "given back with the next call";
  EXPECT_EQ(client.open("a").read().version(), 1U);
}

}  // namespace
}  // namespace memlease::testing
