// Several clients in one process, as libraries make them that know nothing of each other: what one
// of them closes, or is interrupted by, is its own.
#include <memlease/memlease.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

class OwnHandles : public ::testing::Test {
 protected:
  OwnHandles() {
    CreateOptions options;
    options.name = "a";
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {8};
    options.lifetime = Lifetime::Persistent;
    array.emplace(client.create(options));
    array->write().publish();
  }
  Client connect(std::function<void()> check_interrupt = {}) const {
    ConnectOptions options = options_for(daemon);
    options.check_interrupt = std::move(check_interrupt);
    return Client::connect(options);
  }
  // What a call with the array raises.
  static std::optional<ErrorCode> read_error(const Array& array, const ReadOptions& options = {}) {
    return error_of([&] { static_cast<void>(array.read(options)); });
  }
  // A wait for a version that nobody publishes.
  static ReadOptions in_vain(const Array& array) {
    ReadOptions options;
    options.newer_than = array.version();
    options.timeout = std::chrono::milliseconds(1);
    return options;
  }

  PrivateDaemon daemon{{"--warm-bytes=0", "--log-level=warning"}};
  Client client = connect();
  std::optional<Array> array;
};

TEST_F(OwnHandles, OfOneArrayAreClosedOneByOne) {
  const Client other = connect();
  const Array theirs = other.open("a");
  const Array again = client.open("a");
  const Array copy = *array;
  array->close();
  EXPECT_TRUE(copy.closed());
  EXPECT_EQ(read_error(copy), ErrorCode::Closed);
  for (const Array& open : {theirs, again}) {
    EXPECT_FALSE(open.closed());
    EXPECT_EQ(read_error(open), std::nullopt);
    open.write().publish();
  }
  again.close();
  theirs.close();
  const Array reopened = client.open("a");
  EXPECT_EQ(read_error(reopened), std::nullopt);
  EXPECT_EQ(read_error(theirs), ErrorCode::Closed) << "closed once is closed for ever";
  client.withdraw("a");
  other.close();
  client.close();
  EXPECT_EQ(daemon.unsettled(), "");
}

// By one for each a process that has tens of thousands takes seconds to end.
TEST_F(OwnHandles, OfManyArraysAreGivenBackByFewCalls) {
  constexpr int kMany = 2 * 256 + 1;
  const auto name_of = [](int i) { return "many/" + std::to_string(i); };
  const auto calls_of = [this](const std::function<void()>& step) {
    const std::uint64_t before = client.calls();
    step();
    return client.calls() - before;
  };
  const Client other = connect();
  std::vector<Array> arrays;
  for (int i = 0; i < kMany; ++i) {
    CreateOptions options{name_of(i), dtype_of<std::uint64_t>(), {8}};
    options.slots = 1;
    options.lifetime = Lifetime::Persistent;
    arrays.push_back(other.create(options));
  }
  EXPECT_EQ(calls_of([&] { other.close(); }), 3U);
  arrays.clear();
  for (int i = 0; i < kMany; ++i) arrays.push_back(client.open(name_of(i)));
  arrays.clear();
  EXPECT_EQ(calls_of([&] { static_cast<void>(client.exists("a")); }), 3U + 1U);
  for (int i = 0; i < kMany; ++i) client.withdraw(name_of(i));
  client.withdraw("a");
  array.reset();
  static_cast<void>(client.exists("a"));
  EXPECT_EQ(daemon.unsettled(1), "") << "the daemon has heard of all of them";
  client.close();
}

TEST_F(OwnHandles, OfAWithdrawnArrayAreGivenBackAtOnceAndNoOthers) {
  const Array other = client.create({"b", dtype_of<std::uint64_t>(), {8}});
  const std::uint64_t before = client.calls();
  client.withdraw("a");
  EXPECT_EQ(client.calls() - before, 2U);
  EXPECT_EQ(read_error(*array), ErrorCode::Withdrawn);
  other.write().publish();
  EXPECT_EQ(read_error(other), std::nullopt);
}

TEST_F(OwnHandles, AreClosedWithTheirClientAlone) {
  const Client other = connect();
  const Array theirs = other.open("a");
  other.close();
  EXPECT_EQ(read_error(theirs), ErrorCode::Closed);
  EXPECT_EQ(read_error(*array), std::nullopt);
  client.withdraw("a");
  client.close();
  EXPECT_EQ(daemon.unsettled(), "");
}

TEST_F(OwnHandles, OutliveTheClientThatWasATemporary) {
  std::optional<Array> kept(connect().open("a"));
  client.close();
  EXPECT_EQ(read_error(*array), ErrorCode::Closed);
  EXPECT_EQ(read_error(*kept), std::nullopt);
  kept->withdraw();
  kept.reset();
  connect().close();  // the last one
  EXPECT_EQ(daemon.unsettled(), "");
}

TEST_F(OwnHandles, AreInterruptedByTheirOwnClient) {
  struct Stop : std::runtime_error {
    Stop() : std::runtime_error("stop") {}
  };
  const auto used = std::make_shared<int>(0);  // by a check that is still there
  Client other = connect([used] { throw Stop(); });
  const Array theirs = other.open("a");
  Follower follower = theirs.follow();
  ReadOptions for_ever = in_vain(theirs);
  for_ever.timeout = kForever;
  EXPECT_THROW(static_cast<void>(theirs.read(for_ever)), Stop);
  static_cast<void>(follower.next());
  EXPECT_THROW(static_cast<void>(follower.next()), Stop);
  EXPECT_THROW(other.wait_for("never"), Stop);
  EXPECT_EQ(read_error(*array, in_vain(*array)), ErrorCode::Timeout);
  other.close();
  EXPECT_EQ(used.use_count(), 1) << "nobody may call it now";
  EXPECT_EQ(read_error(*array, in_vain(*array)), ErrorCode::Timeout);
}

// Threads of which a test knows that they wait: they are asked whether to go on.
class WaitingThreads {
 public:
  using Outcome = std::future<std::optional<ErrorCode>>;

  std::function<void()> check() {
    return [this] {
      const std::lock_guard lock(mutex_);
      asked_.insert(std::this_thread::get_id());
      changed_.notify_all();
    };
  }
  // What the call raises in a thread of its own.
  static Outcome run(const std::function<void()>& call) {
    return std::async(std::launch::async, [call]() -> std::optional<ErrorCode> {
      try {
        call();
        return std::nullopt;
      } catch (const Error& error) {
        return error.code();
      }
    });
  }
  void await(std::size_t threads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_.size() >= threads; });
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::set<std::thread::id> asked_;
};

constexpr std::chrono::seconds kLong{20};

TEST_F(OwnHandles, EndTheWaitsOfOtherThreadsWhenTheyAreClosed) {
  WaitingThreads waiting;
  const Client other = connect(waiting.check());
  const Array mine = other.open("a");
  const Array also_mine = other.open("a");
  Follower follower = mine.follow(kLong);
  follower.next().release();
  ReadOptions later = in_vain(mine);
  later.timeout = kLong;
  WriteLease lease = array->write();  // nobody else of this process writes meanwhile
  const std::uint64_t next = lease.version();
  auto goes_on = WaitingThreads::run([&] { EXPECT_EQ(also_mine.read(later).version(), next); });
  std::vector<WaitingThreads::Outcome> outcomes;
  outcomes.push_back(WaitingThreads::run([&] { static_cast<void>(mine.read(later)); }));
  outcomes.push_back(WaitingThreads::run([&] { static_cast<void>(mine.write({.wait = kLong})); }));
  outcomes.push_back(WaitingThreads::run([&] { static_cast<void>(follower.next()); }));
  waiting.await(4);
  const auto start = std::chrono::steady_clock::now();
  mine.close();
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.get(), ErrorCode::Closed);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 4);
  lease.publish();
  EXPECT_EQ(goes_on.get(), std::nullopt) << "another handle of the same array";
}

TEST_F(OwnHandles, EndTheirWaitsWhenTheirClientIsClosed) {
  WaitingThreads waiting;
  const Client other = connect(waiting.check());
  const Array theirs = other.open("a");
  ReadOptions later = in_vain(theirs);
  later.timeout = kLong;
  std::vector<WaitingThreads::Outcome> outcomes;
  outcomes.push_back(WaitingThreads::run([&] { static_cast<void>(theirs.read(later)); }));
  outcomes.push_back(WaitingThreads::run([&] { other.wait_for("never", kLong); }));
  waiting.await(2);
  const auto start = std::chrono::steady_clock::now();
  other.close();
  for (auto& outcome : outcomes) EXPECT_EQ(outcome.get(), ErrorCode::Closed);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 4);
  EXPECT_EQ(read_error(*array, in_vain(*array)), ErrorCode::Timeout) << "its client goes on";
}

TEST_F(OwnHandles, EndNoWaitButTheFollowersOwnWhenThatIsClosed) {
  WaitingThreads waiting;
  const Client other = connect(waiting.check());
  const Array theirs = other.open("a");
  Follower follower = theirs.follow(kLong);
  follower.next().release();
  ReadOptions later = in_vain(theirs);
  later.timeout = kLong;
  const std::uint64_t next = theirs.version() + 1;
  auto reads = WaitingThreads::run([&] { EXPECT_EQ(theirs.read(later).version(), next); });
  auto follows = WaitingThreads::run([&] { static_cast<void>(follower.next()); });
  waiting.await(2);
  const auto start = std::chrono::steady_clock::now();
  follower.close();
  EXPECT_EQ(follows.get(), ErrorCode::Closed);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLong / 4);
  follower.close();
  EXPECT_THROW(static_cast<void>(follower.next()), Error);
  array->write().publish();
  EXPECT_EQ(reads.get(), std::nullopt);
}

TEST_F(OwnHandles, EndAWaitForSeveralWhenAFollowerOfTheseIsClosed) {
  WaitingThreads waiting;
  const Client other = connect(waiting.check());
  const Array theirs = other.open("a");
  Follower follower = theirs.follow(kLong, theirs.version());
  std::vector<std::size_t> ready;
  auto waits =
      WaitingThreads::run([&] { ready = wait({{theirs, theirs.version()}, follower}, kLong); });
  waiting.await(1);
  follower.close();
  EXPECT_EQ(waits.get(), std::nullopt);
  EXPECT_EQ(ready, std::vector<std::size_t>{1});
  EXPECT_EQ(wait({{theirs, theirs.version()}, follower}), std::vector<std::size_t>{1});
  EXPECT_TRUE(follower.closed());
}

}  // namespace
}  // namespace memlease::testing
