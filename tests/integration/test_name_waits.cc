// Who waits for a name costs nobody anything until an array of that name may be there.
#include <memlease/memlease.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/error_of.h"
#include "tests/support/eventually.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using namespace std::chrono_literals;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class NameWaits : public ::testing::Test {
 protected:
  // The calls so far.
  std::size_t calls() const { return count_of(daemon.log(), "name=LookUp"); }
  void create(const std::string& name) {
    CreateOptions options;
    options.name = name;
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {8};
    client.create(options);
  }

  PrivateDaemon daemon{{"--log-level=debug"}};
  Client client = Client::connect(options_for(daemon));
};

TEST_F(NameWaits, CallTheDaemonOnceBeforeTheNameIsThereAndOnceAfterwards) {
  constexpr std::size_t kWaits = 200;  // more than calls at once on a connection
  std::atomic<std::size_t> found{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kWaits; ++i) {
    threads.emplace_back([&] {
      client.wait_for("late", 60s);
      ++found;
    });
  }
  EXPECT_TRUE(eventually([&] { return calls() == kWaits; }));
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(calls(), kWaits) << "they sleep";
  EXPECT_EQ(found, 0U);
  create("late");
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, kWaits);
  EXPECT_EQ(calls(), 2 * kWaits);
}

TEST_F(NameWaits, GoOnWhereAnotherNameIsCreated) {
  std::thread waiting([&] { client.wait_for("late", 60s); });
  EXPECT_TRUE(eventually([&] { return calls() == 1; }));
  for (int i = 0; i < 20; ++i) create("early/" + std::to_string(i));
  create("late");
  waiting.join();
}

TEST_F(NameWaits, EndWithADrain) {
  std::optional<ErrorCode> ended;
  std::thread waiting([&] { ended = error_of([&] { client.wait_for("never", 60s); }); });
  EXPECT_TRUE(eventually([&] { return calls() == 1; }));
  daemon.signal(SIGTERM);
  waiting.join();
  EXPECT_TRUE(ended == ErrorCode::DaemonUnavailable || ended == ErrorCode::DaemonLost);
}

TEST_F(NameWaits, EndWithTheDaemon) {
  std::optional<ErrorCode> ended;
  std::thread waiting([&] { ended = error_of([&] { client.wait_for("never", 60s); }); });
  EXPECT_TRUE(eventually([&] { return calls() == 1; }));
  daemon.kill();
  waiting.join();
  EXPECT_EQ(ended, ErrorCode::DaemonLost);
}

}  // namespace
}  // namespace memlease::testing
