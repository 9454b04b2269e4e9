// Descriptors for the loops of others: readable while a read would not wait, and one thread for all
// of a process's.
#include <fcntl.h>
#include <memlease/memlease.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/error_of.h"
#include "tests/support/open_files.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"
#include "tests/support/readable.h"
#include "wire/unique_fd.h"

namespace memlease::testing {
namespace {

constexpr int kLongMs = 20'000;

// But for that which sleeps on the connection while any wait lasts.
std::size_t threads() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "memlease-end") ++count;
  }
  return count;
}

// gRPC has threads only while calls are made, and for a moment after.
bool threads_become(std::size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLongMs);
  while (threads() != count) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class EventFds : public ::testing::Test {
 protected:
  EventFds() { array->write().publish(); }
  static Client connect(const PrivateDaemon& daemon) {
    return Client::connect(options_for(daemon));
  }
  static Array create(const Client& client, const std::string& name, std::uint32_t slots = 3) {
    CreateOptions options;
    options.slots = slots;
    options.name = name;
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {8};
    options.lifetime = Lifetime::Persistent;
    return client.create(options);
  }
  // In a child, to which everything has been copied; its exit code.
  static int in_fork(const std::function<int()>& fn) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 99;
      try {
        code = fn();
      } catch (const Error& error) {
        std::fputs(error.what(), stderr);
      }
      ::_exit(code);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  PrivateDaemon daemon{{"--warm-bytes=0", "--log-level=warning"}};
  Client client = connect(daemon);
  std::optional<Array> array = create(client, "a");
};

TEST_F(EventFds, OfAFollowerAreReadableWhileAStepWouldNotWait) {
  Follower follower = array->follow();
  const int fd = follower.event_fd();
  EXPECT_EQ(follower.event_fd(), fd);
  for (std::uint64_t version = 1; version < 50; ++version) {
    EXPECT_TRUE(readable(fd)) << version;
    EXPECT_EQ(follower.next().version(), version);
    EXPECT_FALSE(readable(fd, 0)) << version;
    EXPECT_FALSE(follower.try_next().has_value());
    array->write().publish();
  }
}

TEST_F(EventFds, OfAnArrayAreReadableWhileThereIsAVersionThatThisHandleHasNotRead) {
  const int fd = array->event_fd();
  const Array other = client.open("a");
  EXPECT_TRUE(readable(fd));
  other.read().release();
  array->follow().next().release();
  EXPECT_TRUE(readable(fd, 0)) << "neither another handle's reads nor a follower's count";
  for (int i = 0; i < 50; ++i) {
    const Array copy = *array;
    copy.read().release();
    EXPECT_FALSE(readable(fd, 0)) << i;
    array->write().publish();
    EXPECT_TRUE(readable(fd)) << i;
  }
  const std::uint64_t newest = array->read().version();
  EXPECT_EQ(error_of([&] { array->read({newest - 1, 0, {}, {}}).release(); }), std::nullopt);
  EXPECT_FALSE(readable(fd, 0)) << "an older version has been read";
}

TEST_F(EventFds, OfAnOnlySlotAreReadableOnceForAWriteThatWasDropped) {
  const Array one = create(client, "one", 1);
  const int fd = one.event_fd();
  one.write().publish();
  one.read().release();
  EXPECT_FALSE(readable(fd, 0));
  one.write().drop();
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(error_of([&] { one.read({0, 1, std::chrono::seconds(1), {}}).release(); }),
            ErrorCode::WriteAborted);
  EXPECT_FALSE(readable(fd, 0));
  one.write().publish();
  EXPECT_TRUE(readable(fd));
}

// Versions come while nobody takes them, and while they are taken.
TEST_F(EventFds, MissNothing) {
  constexpr std::uint64_t kVersions = 3000;
  std::thread writer([&] {
    const Array theirs = client.open("a");
    for (std::uint64_t i = 1; i < kVersions; ++i) theirs.write().publish();
  });
  Follower follower = array->follow();
  const int fd = follower.event_fd();
  std::uint64_t last = 0;
  while (last < kVersions && readable(fd)) {
    if (const auto lease = follower.try_next()) last = lease->version();
  }
  writer.join();
  EXPECT_EQ(last, kVersions) << "it was not readable though there was a version";
}

TEST_F(EventFds, AreReadableWhenAReadWouldThrow) {
  struct End {
    const char* name;
    ErrorCode code;
    std::function<void(const Array& theirs, Follower& follower)> end;
  };
  const Client operators = connect(daemon);
  const End ends[] = {
      {"withdrawn", ErrorCode::Withdrawn, [&](auto&, auto&) { operators.withdraw("b"); }},
      {"the handle closed", ErrorCode::Closed, [](auto& theirs, auto&) { theirs.close(); }},
  };
  for (const End& end : ends) {
    SCOPED_TRACE(end.name);
    const Array theirs = create(client, "b");
    Follower follower = theirs.follow();
    const int fds[] = {theirs.event_fd(), follower.event_fd()};
    for (const int fd : fds) EXPECT_FALSE(readable(fd, 0));
    end.end(theirs, follower);
    for (const int fd : fds) EXPECT_TRUE(readable(fd));
    EXPECT_EQ(error_of([&] { static_cast<void>(follower.try_next()); }), end.code);
    EXPECT_EQ(error_of([&] { theirs.read().release(); }), end.code);
    EXPECT_EQ(error_of([&] { follower.next().release(); }), end.code);
    if (operators.exists("b")) operators.withdraw("b");
  }
}

TEST_F(EventFds, AreReadableWhenTheSessionIsEvicted) {
  Follower follower = array->follow({}, array->version());
  const int fd = follower.event_fd();
  EXPECT_FALSE(readable(fd, 0));
  ASSERT_TRUE(daemon.admin().evict(client.session_id()).ok());
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(error_of([&] { static_cast<void>(follower.try_next()); }), ErrorCode::DaemonLost);
}

TEST_F(EventFds, AreReadableWhenTheFollowerIsClosed) {
  Follower follower = array->follow({}, array->version());
  const int fd = follower.event_fd();
  EXPECT_FALSE(readable(fd, 0));
  follower.close();
  EXPECT_TRUE(readable(fd, 0));
  EXPECT_EQ(follower.event_fd(), fd) << "for a loop that is to forget it";
  EXPECT_EQ(error_of([&] { static_cast<void>(follower.try_next()); }), ErrorCode::Closed);
}

TEST_F(EventFds, OfTwoDaemonsEndWithTheirOwn) {
  PrivateDaemon second{{"--warm-bytes=0", "--log-level=warning"}};
  const Client there = connect(second);
  const Array theirs = create(there, "a");
  Follower lost = theirs.follow();
  Follower follower = array->follow({}, array->version());
  const int lost_fd = lost.event_fd();
  const int fd = follower.event_fd();
  theirs.write().publish();
  EXPECT_TRUE(readable(lost_fd));
  lost.next().release();
  second.kill();
  EXPECT_TRUE(readable(lost_fd));
  EXPECT_EQ(error_of([&] { static_cast<void>(lost.try_next()); }), ErrorCode::DaemonLost);
  EXPECT_FALSE(readable(fd, 0));
  array->write().publish();
  EXPECT_TRUE(readable(fd));
}

TEST_F(EventFds, HaveOneThreadWhichEnds) {
  ASSERT_TRUE(threads_become(1)) << "gRPC's";
  const auto before = open_files();
  {
    std::vector<Array> arrays;
    std::vector<Follower> followers;
    for (int i = 0; i < 100; ++i) {
      // Beyond 64 arrays, and several times the same one.
      arrays.push_back(i % 4 == 0 ? client.open("a") : create(client, "m" + std::to_string(i)));
      followers.push_back(arrays.back().follow({}, arrays.back().version()));
      followers.back().event_fd();
    }
    ASSERT_TRUE(threads_become(2));
    arrays[57].write().publish();
    EXPECT_TRUE(readable(followers[57].event_fd()));
    EXPECT_FALSE(readable(followers[58].event_fd(), 0));
    array->write().publish();
    for (std::size_t i = 0; i < followers.size(); i += 4) {
      EXPECT_TRUE(readable(followers[i].event_fd())) << i;
    }
    for (const Array& each : arrays) {
      if (each.name() != "a") each.withdraw();
    }
  }
  EXPECT_TRUE(threads_become(1)) << "nothing waits";
  std::set<std::string> left;
  const auto now = open_files();
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(),
                      std::inserter(left, left.end()));
  for (const std::string& fd : left) {
    const auto file = std::filesystem::read_symlink("/proc/self/fd/" + fd).string();
    EXPECT_EQ(file.find("eventfd"), std::string::npos) << fd;
  }
}

TEST_F(EventFds, SayWhenThereAreNoMore) {
  Follower follower = array->follow();
  array->read().release();  // which needs descriptors of its own
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{256, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<wire::UniqueFd> taken;
  while (taken.empty() || taken.back()) taken.emplace_back(::dup(0));
  std::string text;
  try {
    follower.event_fd();
  } catch (const Error& error) {
    text = error.what();
    EXPECT_EQ(error.code(), ErrorCode::OutOfMemory);
  }
  taken.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
  EXPECT_TRUE(readable(follower.event_fd())) << "the next call may have one";
}

TEST_F(EventFds, AreTheChildsOwnAfterAFork) {
  ASSERT_TRUE(threads_become(1)) << "gRPC's";
  Follower follower = array->follow({}, array->version());
  const int fd = follower.event_fd();
  const int array_fd = array->event_fd();
  array->read().release();
  ASSERT_TRUE(threads_become(2));
  const int code = in_fork([&] {
    if (threads() != 1) return 1;
    follower.close();  // of this process
    Follower mine = array->follow({}, array->version());
    const int my_fd = mine.event_fd();
    if (readable(my_fd, 0) || array->event_fd() != array_fd || readable(array_fd, 0)) return 2;
    array->write().publish();
    if (!readable(my_fd) || !readable(array_fd)) return 3;
    mine.next().release();
    array->read().release();
    return readable(my_fd, 0) || readable(array_fd, 0) ? 4 : 0;
  });
  ASSERT_EQ(code, 0);
  EXPECT_TRUE(readable(fd)) << "the child has published";
  EXPECT_TRUE(readable(array_fd));
  EXPECT_EQ(follower.next().version(), 2U);
  EXPECT_FALSE(readable(fd, 0));
  array->write().publish();
  EXPECT_TRUE(readable(fd));
}

TEST_F(EventFds, StandForksFromManyThreads) {
  Follower follower = array->follow();
  const int fd = follower.event_fd();
  std::vector<std::thread> forking;
  for (int i = 0; i < 4; ++i) {
    forking.emplace_back([&] {
      for (int fork = 0; fork < 20; ++fork) EXPECT_EQ(in_fork([] { return 0; }), 0);
    });
  }
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(readable(fd)) << i;
    follower.next().release();
    array->write().publish();
  }
  for (std::thread& thread : forking) thread.join();
}

}  // namespace
}  // namespace memlease::testing
