// However many calls a user makes, one of them has the core.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/rpc/user_host.h"
#include "tests/support/fake_service_host.h"

namespace memlease::testing {
namespace {

using namespace std::chrono_literals;

// Gives the core to any number of calls at once, as the daemon does not.
class OpenHost : public FakeServiceHost {
 public:
  void with_broker(const std::function<void(server::Broker&)>& fn) override { fn(world.broker); }
};

// Where calls meet.
class Room {
 public:
  // Whether somebody else is there, too, within this time; then leaves.
  bool meets_somebody(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    ++inside_;
    met_ = met_ || inside_ == 2;
    changed_.notify_all();
    changed_.wait_for(lock, time, [&] { return met_; });
    --inside_;
    return met_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool met_ = false;
};

TEST(UserHost, OneCallOfAUsersHasTheCore) {
  OpenHost host;
  server::UserHost user(host);
  Room room;
  std::vector<std::thread> calls;
  for (int i = 0; i < 4; ++i) {
    calls.emplace_back(
        [&] { user.with_broker([&](auto&) { EXPECT_FALSE(room.meets_somebody(50ms)); }); });
  }
  for (std::thread& call : calls) call.join();
}

TEST(UserHost, UsersDoNotWaitForEachOther) {
  OpenHost host;
  server::UserHost user(host);
  server::UserHost other(host);
  Room room;
  std::thread call(
      [&] { user.with_broker([&](auto&) { EXPECT_TRUE(room.meets_somebody(20s)); }); });
  other.with_broker([&](auto&) { EXPECT_TRUE(room.meets_somebody(20s)); });
  call.join();
}

}  // namespace
}  // namespace memlease::testing
