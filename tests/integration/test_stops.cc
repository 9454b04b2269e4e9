// What ends a wait early or on time: std::stop_token, deadlines, and a writer that goes. Here
// nobody looks again by himself, in the cases that say so: who is not woken would wait on.
#include <memlease/memlease.h>

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFarOff{20};

class Stops : public ::testing::Test {
 protected:
  Stops() {
    CreateOptions options;
    options.name = "a";
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {8};
    options.lifetime = Lifetime::Persistent;
    array.emplace(client.create(options));
    array->write().publish();
  }
  // How long the call goes on after a stop, which comes when it waits.
  static std::chrono::nanoseconds after_stop(const std::function<void(std::stop_token)>& call) {
    std::stop_source source;
    std::promise<void> begun;
    auto outcome = std::async(std::launch::async, [&] {
      begun.set_value();
      return error_of([&] { call(source.get_token()); });
    });
    begun.get_future().wait();
    // It waits, or is about to: both must be ended.
    const bool ended_before = outcome.wait_for(20ms) == std::future_status::ready;
    EXPECT_FALSE(ended_before);
    const auto start = Clock::now();
    source.request_stop();
    EXPECT_EQ(outcome.get(), ErrorCode::Interrupted);
    return Clock::now() - start;
  }

  PrivateDaemon daemon{{"--warm-bytes=0", "--log-level=warning"}};
  Client client = Client::connect(options_for(daemon));
  std::optional<Array> array;
};

TEST_F(Stops, EndWaits) {
  const std::uint64_t newest = array->version();
  Follower follower = array->follow({}, newest);
  const WriteLease writes = array->write();  // one write at a time
  std::uint64_t words[8] = {};
  const std::function<void(std::stop_token)> calls[] = {
      [&](const auto& stop) { array->read(stop, {0, newest, {}, {}}).release(); },
      [&](const auto& stop) { follower.next(stop).release(); },
      [&](const auto& stop) { follower.next_or_end(stop).reset(); },
      [&](const auto& stop) { wait({{*array, newest}, follower}, stop); },
      [&](const auto& stop) { array->write(stop, {kForever, {}}).drop(); },
      [&](const auto& stop) { array->update(stop, {kForever, {}}).drop(); },
      [&](const auto& stop) { client.wait_for("never", stop); },
      [&](const auto& stop) { array->get(stop, words, sizeof words, {0, newest, {}, {}}); },
      [&](const auto& stop) { array->put(stop, words, sizeof words, {kForever, {}}); },
  };
  for (std::size_t i = 0; i < std::size(calls); ++i) {
    EXPECT_LT(after_stop(calls[i]), kFarOff / 4) << "call " << i;
  }
}

// In half the time at most in which a wait would look by itself.
TEST_F(Stops, WakeReadersAtOnce) {
  const std::uint64_t newest = array->version();
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < 10; ++i) {
    least = std::min(least, after_stop([&](const auto& stop) {
                       array->read(stop, {0, newest, {}, {}}).release();
                     }));
  }
  EXPECT_LT(least, 20ms);
}

TEST_F(Stops, AreForWaitsAlone) {
  std::stop_source source;
  source.request_stop();
  const auto stopped = source.get_token();
  Follower follower = array->follow();
  EXPECT_EQ(array->read(stopped).version(), 1U);
  EXPECT_EQ(follower.next(stopped).version(), 1U);
  EXPECT_EQ(error_of([&] { follower.next(stopped).release(); }), ErrorCode::Interrupted);
  EXPECT_EQ(array->write(stopped).publish(), 2U);
  EXPECT_EQ(follower.next(stopped).version(), 2U) << "a stop is of one call";
  EXPECT_EQ(client.wait_for("a", stopped).version(), 2U);
  EXPECT_EQ(wait({{*array, 1}}, stopped), std::vector<std::size_t>{0});
  EXPECT_EQ(array->read(std::stop_token()).version(), 2U) << "one that cannot be stopped";
}

TEST_F(Stops, ByDeadlinesAreOnTime) {
  const std::uint64_t newest = array->version();
  const auto end = Clock::now() + 50ms;
  Follower follower = array->follow(end, newest);
  EXPECT_EQ(error_of([&] { array->read({0, newest, end, {}}).release(); }), ErrorCode::Timeout);
  EXPECT_GE(Clock::now(), end);
  const auto start = Clock::now();
  EXPECT_EQ(error_of([&] { follower.next().release(); }), ErrorCode::Timeout)
      << "that is for all its steps";
  EXPECT_EQ(error_of([&] { client.wait_for("never", std::chrono::system_clock::now()); }),
            ErrorCode::Timeout);
  EXPECT_EQ(wait({{*array, newest}}, end), std::vector<std::size_t>{});
  EXPECT_LT(Clock::now() - start, kFarOff / 4);
}

class UntilWriterGone : public Stops {
 protected:
  UntilWriterGone() { run("connect"), run("open a"); }
  void run(const std::string& command) {
    const Answer answer = writer.ask(command);
    EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
  }
  // All versions to the end.
  static std::vector<std::uint64_t> versions_of(Follower& follower) {
    std::vector<std::uint64_t> seen;
    while (const auto lease = follower.next_or_end()) seen.push_back(lease->version());
    return seen;
  }
  static FollowOptions until_gone(std::uint64_t after = 0) {
    FollowOptions options;
    options.until_writer_gone = true;
    options.timeout = kFarOff;
    options.after = after;
    return options;
  }

  Peer writer{daemon.directory()};
};

TEST_F(UntilWriterGone, FollowersEndWithItsLastVersion) {
  run("put a 1000");
  Follower follower = array->follow(until_gone());
  EXPECT_EQ(follower.next().version(), 2U);
  const int fd = follower.event_fd();
  auto rest = std::async(std::launch::async, [&] { return versions_of(follower); });
  run("put a 1000");
  run("put a 1000");
  writer.kill();
  const auto seen = rest.get();
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), 4U);
  EXPECT_TRUE(follower.closed());
  EXPECT_EQ(follower.event_fd(), fd);
  EXPECT_EQ(error_of([&] { follower.next().release(); }), ErrorCode::Closed);
  EXPECT_EQ(wait({follower}), std::vector<std::size_t>{0});
}

TEST_F(UntilWriterGone, AWaitForAFollowerEnds) {
  run("put a 1000");
  Follower follower = array->follow(until_gone(2));
  auto waits =
      std::async(std::launch::async, [&] { return wait({{*array, 2}, follower}, kFarOff); });
  writer.kill();
  EXPECT_EQ(waits.get(), std::vector<std::size_t>{1});
  EXPECT_FALSE(follower.next_or_end().has_value());
}

}  // namespace
}  // namespace memlease::testing
