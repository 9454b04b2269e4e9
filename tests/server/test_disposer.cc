#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "gtest/gtest.h"
#include "server/disposer.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class Trash final : public Garbage {
 public:
  explicit Trash(std::function<bool()> go, std::function<void(bool)> settle = {})
      : go_(std::move(go)), settle_(std::move(settle)) {}
  bool go() override { return go_(); }
  void settle(bool has_gone) override {
    if (settle_) settle_(has_gone);
  }

 private:
  const std::function<bool()> go_;
  const std::function<void(bool)> settle_;
};

std::shared_ptr<Garbage> trash(std::function<void()> go) {
  return std::make_shared<Trash>([go = std::move(go)] {
    go();
    return true;
  });
}

constexpr auto kSettle = [](const std::function<void()>& settle) { settle(); };

steady_clock::time_point in(milliseconds time) { return steady_clock::now() + time; }
steady_clock::time_point in_a_while() { return in(std::chrono::minutes(1)); }

TEST(Disposer, TriesAllBeforeItEnds) {
  std::atomic<int> gone = 0;
  {
    Disposer disposer(kSettle);
    for (int i = 0; i < 1000; ++i) {
      disposer.dispose(static_cast<uid_t>(i % 7), trash([&] { ++gone; }));
    }
  }
  EXPECT_EQ(gone, 1000);
}

TEST(Disposer, NobodyWaitsForAnothersMemory) {
  std::promise<void> go_on;
  std::promise<void> slow_is_on;
  std::promise<void> other_is_done;
  Disposer disposer(kSettle);
  disposer.dispose(1, trash([&] {
                     slow_is_on.set_value();
                     go_on.get_future().wait();
                   }));
  slow_is_on.get_future().wait();
  disposer.dispose(1, trash([] {}));  // waits for the first one, and we do not
  disposer.dispose(2, trash([&] { other_is_done.set_value(); }));
  other_is_done.get_future().wait();
  go_on.set_value();
}

TEST(Disposer, WhoAsksForMoreWaitsForHisOwn) {
  std::promise<void> go_on;
  std::atomic<bool> gone = false;
  Disposer disposer(kSettle);
  disposer.await(1, in_a_while());  // there is none
  disposer.dispose(1, trash([&] {
                     go_on.get_future().wait();
                     gone = true;
                   }));
  disposer.await(1, in(milliseconds(1)));
  disposer.await({}, in(milliseconds(1)));
  disposer.await(2, in_a_while());
  EXPECT_FALSE(gone);
  go_on.set_value();
  disposer.await(1, in_a_while());
  EXPECT_TRUE(gone);
}

TEST(Disposer, EverybodyWaitsForWhatIsNobodys) {
  std::promise<void> go_on;
  std::atomic<bool> gone = false;
  Disposer disposer(kSettle);
  disposer.dispose(Disposer::kNobodysUid, trash([&] {
                     go_on.get_future().wait();
                     gone = true;
                   }));
  disposer.await(1, in(milliseconds(1)));
  go_on.set_value();
  disposer.await(1, in_a_while());
  EXPECT_TRUE(gone);
}

TEST(Disposer, NobodyWaitsWhenItIsAboutToEnd) {
  std::promise<void> go_on;
  Disposer disposer(kSettle);
  disposer.dispose(1, trash([&] { go_on.get_future().wait(); }));
  disposer.refuse_waits();
  disposer.await(1, in_a_while());
  go_on.set_value();
}

// However many one user keeps, another's go at once.
TEST(Disposer, WhatIsKeptGoesWhenItCan) {
  std::atomic<bool> is_open = true;
  std::atomic<int> kept = 0;
  std::atomic<int> gone = 0;
  Disposer disposer(kSettle);
  const auto settle = [&](bool has_gone) { has_gone ? ++gone : ++kept; };
  for (int i = 0; i < 300; ++i) {
    disposer.dispose(1, std::make_shared<Trash>([&] { return !is_open; }, settle));
  }
  disposer.await(1, in_a_while());
  EXPECT_GE(kept, 300);
  EXPECT_EQ(gone, 0);
  std::promise<void> other;
  disposer.dispose(2, trash([&] { other.set_value(); }));
  other.get_future().wait();
  is_open = false;
  while (gone < 300) disposer.await(1, in_a_while());
  disposer.await({}, in_a_while());
}

// Who lets go of more again and again would else never look at it.
TEST(Disposer, WhatIsKeptIsLookedAtWhileMoreComes) {
  std::atomic<bool> is_open = true;
  std::atomic<bool> gone = false;
  Disposer disposer(kSettle);
  disposer.dispose(1, std::make_shared<Trash>([&] { return !is_open; },
                                              [&](bool has_gone) { gone = gone || has_gone; }));
  disposer.await(1, in_a_while());
  is_open = false;
  while (!gone) {
    std::promise<void> done;
    disposer.dispose(1, trash([&] { done.set_value(); }));
    done.get_future().wait();
  }
}

TEST(Disposer, EndsWithWhatIsKept) {
  Disposer disposer(kSettle);
  disposer.dispose(1, std::make_shared<Trash>([] { return false; }));
  disposer.await(1, in_a_while());
}

}  // namespace
}  // namespace memlease::server
