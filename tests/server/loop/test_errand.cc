#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/loop/errand.h"

namespace memlease::server {
namespace {

using ::testing::ElementsAre;

struct ErrandWorld {
  const std::unique_ptr<EventLoop> loop = *EventLoop::create();
  std::vector<int> seen;
};

TEST(Errand, TheLoopGoesOnMeanwhile) {
  ErrandWorld world;
  std::latch answered(1);
  std::thread::id on;
  Errand errand(*world.loop, [&]() -> EventLoop::Task {
    answered.wait();
    on = std::this_thread::get_id();
    return [&] {
      world.seen.push_back(2);
      EXPECT_NE(on, std::this_thread::get_id());
      world.loop->stop();
    };
  });
  errand.begin();
  world.loop->post([&] {
    world.seen.push_back(1);
    answered.count_down();
  });
  world.loop->run();
  EXPECT_THAT(world.seen, ElementsAre(1, 2));
}

TEST(Errand, WhatIsAskedForMeanwhileIsDoneOnceMore) {
  ErrandWorld world;
  std::latch asked(1);
  int works = 0;
  Errand errand(*world.loop, [&]() -> EventLoop::Task {
    asked.wait();
    return [&world, work = ++works] {
      world.seen.push_back(work);
      if (work == 2) world.loop->post([&] { world.loop->stop(); });
    };
  });
  for (int i = 0; i < 3; ++i) errand.begin();
  asked.count_down();
  world.loop->run();
  EXPECT_THAT(world.seen, ElementsAre(1, 2));
}

TEST(Errand, ItsEndWaitsForTheWork) {
  ErrandWorld world;
  {
    Errand errand(*world.loop, [&]() -> EventLoop::Task {
      world.seen.push_back(1);
      return [&] { world.seen.push_back(2); };
    });
    errand.begin();
  }
  EXPECT_THAT(world.seen, ElementsAre(1));
}

}  // namespace
}  // namespace memlease::server
