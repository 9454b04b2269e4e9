// The daemon is stopped: a caller's interrupt ends its calls, and leaves nothing behind.
#include <memlease/memlease.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "gtest/gtest.h"
#include "tests/integration/stopped_daemon.h"
#include "tests/support/eventually.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;

class InterruptedCall : public StoppedDaemon {};

// The calls that go to the daemon end with the caller's interrupt, not with their own deadlines.
TEST_F(InterruptedCall, EndsAtOnce) {
  CreateOptions wanted;
  wanted.name = "c";
  wanted.dtype = dtype_of<float>();
  wanted.shape = {4};
  const Client hurried = Client::connect(interrupted());
  const Array unread = hurried.create(wanted);  // it has no row to read it
  wanted.name = "b";
  const std::function<void()> steps[] = {
      [&] { hurried.create(wanted); },
      [&] { static_cast<void>(hurried.open("none")); },
      [&] { static_cast<void>(hurried.list()); },
      [&] { static_cast<void>(hurried.exists("none")); },
      [&] { hurried.wait_for("none"); },
      [&] { hurried.withdraw("a"); },
      [&] { static_cast<void>(unread.read()); },
      [&] { static_cast<void>(unread.write()); },
      [&] { unread.withdraw(); },
  };
  stop();
  for (const auto& step : steps) {
    const auto start = Clock::now();
    EXPECT_THROW(step(), Interrupted) << &step - steps;
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5)) << &step - steps;
  }
  daemon.signal(SIGCONT);
}

// As a profiler's, or a scheduler's. gRPC begins its wait anew after each.
TEST_F(InterruptedCall, EndsBesideATimersSignalsToo) {
  const Client hurried = Client::connect(interrupted());
  const Array unread = hurried.open("a");
  stop();
  static std::atomic<int> signals{0};
  signals = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { ++signals; };
  ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
  const timeval interval{0, 20'000};
  const itimerval often{interval, interval};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  EXPECT_THROW(static_cast<void>(hurried.list()), Interrupted);
  EXPECT_THROW(static_cast<void>(unread.read()), Interrupted);
  EXPECT_GT(signals, 0) << "they come to this thread";
  const itimerval never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &never, nullptr), 0);
  daemon.signal(SIGCONT);
}

// It is a close all the same, and the next call tells the daemon what it has not heard.
TEST_F(InterruptedCall, IsAClose) {
  run("create c 3 600 64 session");
  run("put c 1000");
  const Client hurried = Client::connect(interrupted());
  const Array read = hurried.open("c");
  read.read().release();
  stop();
  EXPECT_THROW(read.close(), Interrupted);
  EXPECT_TRUE(read.closed());
  read.close();
  const std::uint64_t calls = client.calls();
  EXPECT_THROW(static_cast<void>(hurried.exists("c")), Interrupted);
  EXPECT_EQ(client.calls(), calls + 1) << "the call waits for nothing else";
  daemon.signal(SIGCONT);
  EXPECT_TRUE(client.exists("c"));
  EXPECT_FALSE(open_here("c"));
}

// Nor that of a call that says first what was released before it.
TEST_F(InterruptedCall, MayHaveSomethingToTellFirst) {
  const Client hurried = Client::connect(interrupted());
  ReadLease lease = array->read();
  array->close();
  lease.release();
  stop();
  const std::uint64_t calls = client.calls();
  EXPECT_THROW(static_cast<void>(hurried.exists("a")), Interrupted);
  EXPECT_EQ(client.calls(), calls + 1) << "and ends with it";
  daemon.signal(SIGCONT);
  EXPECT_TRUE(hurried.exists("a"));
  EXPECT_FALSE(open_here("a"));
}

// Though the daemon has heard it: the array that is opened again stays open.
TEST_F(InterruptedCall, LeavesWhatIsOpenedAgainAfterACloseAlone) {
  run("create c 3 600 64 session");
  for (const bool heard : {true, false}) {
    ConnectOptions options = here();
    options.check_interrupt = [&] {
      daemon.signal(SIGCONT);
      while (heard && open_here("c")) std::this_thread::yield();
      throw Interrupted{};
    };
    const Client hurried = Client::connect(options);
    const Array first = hurried.open("c");
    stop();
    EXPECT_THROW(first.close(), Interrupted);
    daemon.signal(SIGCONT);
    const Array again = client.open("c");
    EXPECT_TRUE(client.exists("c"));
    EXPECT_TRUE(open_here("c")) << "heard: " << heard;
    again.close();
    EXPECT_FALSE(open_here("c")) << "heard: " << heard;
  }
}

TEST_F(InterruptedCall, IsAClientsClose) {
  const Client hurried = Client::connect(interrupted());
  CreateOptions wanted;
  wanted.name = "c";
  wanted.dtype = dtype_of<float>();
  wanted.shape = {4};
  const Array mine = hurried.create(wanted);
  stop();
  EXPECT_THROW(hurried.close(), Interrupted);
  EXPECT_TRUE(hurried.closed());
  EXPECT_TRUE(mine.closed());
  daemon.signal(SIGCONT);
}

// Though there is something to tell it that was released before.
TEST_F(InterruptedCall, IsThatOfAClosingClientThatHasMoreToTell) {
  const Client hurried = Client::connect(interrupted());
  const Array theirs = hurried.open("a");
  array->close();
  client.close();
  ReadLease lease = theirs.read();
  theirs.close();
  lease.release();
  stop();
  EXPECT_THROW(hurried.close(), Interrupted);
  EXPECT_TRUE(hurried.closed());
  daemon.signal(SIGCONT);
}

// Neither where its answer has come meanwhile, nor where the daemon finds it when it goes on.
TEST_F(InterruptedCall, KeepsNothingOpen) {
  run("create c 3 600 64 session");
  for (const bool answered : {true, false}) {
    ConnectOptions options = here();
    options.check_interrupt = [&] {
      if (answered) {
        daemon.signal(SIGCONT);
        while (!open_here("c")) std::this_thread::yield();
      }
      throw Interrupted{};
    };
    const Client hurried = Client::connect(options);
    stop();
    EXPECT_THROW(static_cast<void>(hurried.open("c")), Interrupted);
    daemon.signal(SIGCONT);
    // A later call of the process's finds an answer that comes later; the two channels do not wait
    // for each other.
    EXPECT_TRUE(eventually([&] { return client.exists("c") && !open_here("c"); }))
        << "answered: " << answered;
  }
}

TEST_F(InterruptedCall, IsAConnection) {
  client.close();  // else there is a session already
  array.reset();
  stop();
  const auto start = Clock::now();
  EXPECT_THROW(static_cast<void>(Client::connect(interrupted())), Interrupted);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  daemon.signal(SIGCONT);
}

}  // namespace
}  // namespace memlease::testing
