#include <atomic>
#include <chrono>
#include <future>
#include <memory>

#include "gtest/gtest.h"
#include "server/disposer.h"

namespace memlease::server {
namespace {

// Its end calls this.
template <typename Function>
std::shared_ptr<const void> ending_with(Function function) {
  return {nullptr, [function = std::move(function)](const void*) { function(); }};
}

TEST(Disposer, DestroysAllBeforeItEnds) {
  std::atomic<int> destroyed = 0;
  {
    Disposer disposer;
    for (int i = 0; i < 1000; ++i) {
      disposer.dispose(static_cast<uid_t>(i % 7), ending_with([&] { ++destroyed; }));
    }
  }
  EXPECT_EQ(destroyed, 1000);
}

TEST(Disposer, NobodyWaitsForAnothersMemory) {
  std::promise<void> go_on;
  std::promise<void> slow_is_on;
  std::promise<void> other_is_done;
  Disposer disposer;
  disposer.dispose(1, ending_with([&] {
                     slow_is_on.set_value();
                     go_on.get_future().wait();
                   }));
  slow_is_on.get_future().wait();
  disposer.dispose(1, ending_with([] {}));  // waits for the first one, and we do not
  disposer.dispose(2, ending_with([&] { other_is_done.set_value(); }));
  other_is_done.get_future().wait();
  go_on.set_value();
}

TEST(Disposer, WhoAsksForMoreWaitsForHisOwn) {
  using std::chrono::milliseconds;
  std::promise<void> go_on;
  Disposer disposer;
  EXPECT_TRUE(disposer.await(1, milliseconds(0)));
  disposer.dispose(1, ending_with([&] { go_on.get_future().wait(); }));
  EXPECT_FALSE(disposer.await(1, milliseconds(1)));
  EXPECT_TRUE(disposer.await(2, milliseconds(0)));
  go_on.set_value();
  EXPECT_TRUE(disposer.await(1, std::chrono::seconds(20)));
}

}  // namespace
}  // namespace memlease::server
