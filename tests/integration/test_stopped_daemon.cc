// The daemon is stopped, or slow: whatever needs nothing of it goes on.
#include <memlease/memlease.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/stopped_daemon.h"
#include "tests/support/eventually.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"
#include "tests/support/readable.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;

using ::testing::AnyOf;

// Even where the writer is one that this process has never met.
TEST_F(StoppedDaemon, DoesNotHoldUpTheEndOfLeasesAndViews) {
  ReadLease lease = array->read();
  Pin view = array->read().pin();
  run("put a 1000");
  stop();
  expect_no_call("release of a lease", [&] { lease.release(); });
  expect_no_call("end of a view", [&] { view.reset(); });
  daemon.signal(SIGCONT);
  for (int i = 0; i < 4; ++i) run("put a 1000");
}

// A later call says that nobody uses them any more.
TEST_F(StoppedDaemon, DoesNotHoldUpTheEndOfTheLastLeaseOfAClosedOrWithdrawnArray) {
  const Array withdrawn = client.create({"b", dtype_of<double>(), {16}});
  withdrawn.put(std::vector<double>(16).data(), 128);
  ReadLease of_withdrawn = withdrawn.read();
  client.withdraw("b");
  ReadLease of_closed = array->read();
  array->close();
  stop();
  expect_no_call("of a withdrawn array", [&] { of_withdrawn.release(); });
  expect_no_call("of a closed array", [&] { of_closed.release(); });
  daemon.signal(SIGCONT);
}

// Even where a reader has come since the write began.
TEST_F(StoppedDaemon, DoesNotHoldUpAPublication) {
  WriteLease lease = array->write();
  fill(lease);
  run("read a 0 1000");
  stop();
  expect_no_call("publish", [&] { lease.publish(); });
  daemon.signal(SIGCONT);
  run("read a 1 1000");
}

// Its row is fetched from the daemon. The session is not lost by that.
TEST_F(StoppedDaemon, DoesNotHoldUpAReadThatMeetsANewWriter) {
  const Client hurried = Client::connect(interrupted());
  const Array same = hurried.open("a");
  array->read().release();
  run("put a 1000");
  stop();
  const auto start = Clock::now();
  for (int i = 0; i < 2; ++i) {
    try {
      static_cast<void>(array->read({.timeout = std::chrono::milliseconds(200)}));
      ADD_FAILURE() << "the row cannot be there";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Timeout) << error.what();
    }
    EXPECT_THROW(static_cast<void>(same.read()), Interrupted);
    EXPECT_THROW(static_cast<void>(same.version()), Interrupted);
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  std::future<std::uint64_t> blocked =
      std::async(std::launch::async, [&] { return array->read().version(); });
  daemon.signal(SIGCONT);
  EXPECT_EQ(blocked.get(), 2U);
  EXPECT_EQ(same.version(), 2U);
}

// Nor those that wait for arrays of another daemon as well, in a thread or by a descriptor.
TEST_F(StoppedDaemon, DoesNotHoldUpNewsOfAnotherDaemon) {
  const PrivateDaemon second{{"--log-level=warning"}};
  const Client neighbour = Client::connect(options_for(second));
  CreateOptions options;
  options.name = "b";
  options.dtype = dtype_of<std::uint64_t>();
  options.shape = {kWords};
  const Array b = neighbour.create(options);
  array->read().release();
  run("put a 1000");
  stop();
  Follower of_stopped = array->follow({.after = 1});
  Follower of_other = b.follow();
  EXPECT_GE(of_stopped.event_fd(), 0);
  const int fd = of_other.event_fd();
  EXPECT_TRUE(wait({{*array, 1}, b}, std::chrono::milliseconds(200)).empty()) << "its deadline";
  std::future<std::vector<std::size_t>> ready = std::async(
      std::launch::async, [&] { return wait({{*array, 1}, b}, std::chrono::minutes(1)); });
  const auto start = Clock::now();
  b.write().publish();
  EXPECT_EQ(ready.get(), std::vector<std::size_t>{1});
  EXPECT_TRUE(readable(fd));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  daemon.signal(SIGCONT);
  EXPECT_EQ(of_stopped.next().version(), 2U);
}

// Nor a write that meets a new reader, whose row is fetched likewise.
TEST_F(StoppedDaemon, DoesNotHoldUpAWriteThatMeetsANewReader) {
  const Client hurried = Client::connect(interrupted());
  const Array same = hurried.open("a");
  run("read a 0 1000");
  stop();
  const auto start = Clock::now();
  for (int i = 0; i < 2; ++i) {
    try {
      static_cast<void>(array->write({std::chrono::milliseconds(200)}));
      ADD_FAILURE() << "the row cannot be there";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Timeout) << error.what();
    }
    EXPECT_FALSE(array->try_write());
    EXPECT_THROW(static_cast<void>(same.write()), Interrupted);
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  std::future<void> blocked = std::async(std::launch::async, [&] {
    WriteLease lease = array->write();
    fill(lease);
    lease.publish();
  });
  daemon.signal(SIGCONT);
  blocked.get();
  run("read a 1 1000");
}

// What the lease's views need of the daemon comes as late as the wait ends, and another thread
// writes: that is not waited for once more.
TEST_F(StoppedDaemon, CostsAWriteWithViewsItsWaitOnce) {
  constexpr std::chrono::milliseconds kWait{500};
  std::atomic<int> asked_since{0};  // ten times a second
  Clock::time_point start;
  ConnectOptions options = here();
  options.check_interrupt = [&] {
    if (Clock::now() - start < kWait) return;
    daemon.signal(SIGCONT);
    ++asked_since;
  };
  const Client hurried = Client::connect(options);
  const Array same = hurried.open("a");
  std::optional<WriteLease> lease;
  std::thread([&] { lease = same.write(); }).join();
  stop();
  start = Clock::now();
  try {
    internal::ForBindings::write(same, {kWait}).drop();
    ADD_FAILURE() << "another thread writes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Timeout) << error.what();
  }
  EXPECT_GT(asked_since, 0);
  EXPECT_LE(asked_since, 3);
}

// The check may wait for what the forking thread holds, as Python's does for the GIL.
TEST_F(StoppedDaemon, DoesNotHoldUpAForkBesideACheck) {
  std::promise<void> asked;
  std::promise<void> forked;
  ConnectOptions options = here();
  options.check_interrupt = [&] {
    asked.set_value();
    forked.get_future().wait();
    throw Interrupted{};
  };
  const Client hurried = Client::connect(options);
  stop();
  std::thread calling([&] { EXPECT_THROW(static_cast<void>(hurried.list()), Interrupted); });
  asked.get_future().wait();
  daemon.signal(SIGCONT);
  const pid_t child = fork();
  if (child == 0) {
    try {
      static_cast<void>(Client::connect(here()).list());
      _exit(1);
    } catch (const Error& error) {
      _exit(error.code() == ErrorCode::ForkedClient ? 0 : 2);  // its gRPC was not ended
    }
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  forked.set_value();
  calling.join();
  EXPECT_FALSE(client.list().empty());  // here it goes on
}

// close() leaves it to the thread that is about to read, and does not wait for that.
TEST_F(StoppedDaemon, DoesNotHoldUpACloseBesideAFirstRead) {
  run("create c 3 600 64 session");
  run("put c 1000");
  const Client reading = Client::connect(here());
  const Array unread = reading.open("c");
  stop();
  std::thread first([&] {
    try {
      // It may come before the close, with all that it needs mapped for another array.
      static_cast<void>(unread.read({.timeout = std::chrono::seconds(1)}));
    } catch (const Error& error) {
      EXPECT_THAT(error.code(), AnyOf(ErrorCode::Timeout, ErrorCode::Closed)) << error.what();
    }
  });
  const auto start = Clock::now();
  while (reading.calls() < 2) std::this_thread::yield();
  unread.close();
  first.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  daemon.signal(SIGCONT);
}

// However many arrays there are: one call says that nobody answers.
TEST_F(StoppedDaemon, DoesNotHoldUpAnEnd) {
  std::vector<Array> arrays;
  CreateOptions options;
  options.dtype = dtype_of<float>();
  options.shape = {4};
  for (int i = 0; i < 20; ++i) {
    options.name = "many/" + std::to_string(i);
    arrays.push_back(client.create(options));
  }
  stop();
  const auto start = Clock::now();
  arrays[0].close();
  arrays[1].close();
  client.close();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(6));
  daemon.signal(SIGCONT);
  run("put a 1000");
  const Client next = Client::connect(here());
  EXPECT_EQ(next.list("many/*").size(), arrays.size());  // they are the process's
}

}  // namespace
}  // namespace memlease::testing
