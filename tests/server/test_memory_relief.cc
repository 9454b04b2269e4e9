#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "server/memory_relief.h"

namespace memlease::server {
namespace {

using std::chrono::steady_clock;
using wire::ReserveLeft;

// The test has the loop; its calls wait on threads of their own.
class MemoryReliefTest : public ::testing::Test {
 protected:
  // "g": heap given back, "c": somebody cut.
  std::string done_until_it_ends(ReserveLeft left = ReserveLeft::kLessThanHalf) {
    done_.clear();
    relief_.look(left);
    if (left == ReserveLeft::kHalf) return done_;
    std::thread call([&] {
      relief_.await(steady_clock::now() + std::chrono::seconds(20));
      loop_->post([&] { loop_->stop(); });
    });
    loop_->run();
    call.join();
    EXPECT_FALSE(relief_.may_help(ReserveLeft::kHalf)) << "it is over";
    return done_;
  }

  const std::unique_ptr<EventLoop> loop_ = *EventLoop::create();
  std::string done_;
  // What is left after so much has been done.
  std::function<ReserveLeft()> left_ = [] { return ReserveLeft::kHalf; };
  bool has_calls_ = true;
  MemoryRelief relief_{*loop_,
                       {.left = [this] { return left_(); },
                        .give_back = [this] { done_ += 'g'; },
                        .cut =
                            [this] {
                              if (has_calls_) done_ += 'c';
                              return has_calls_;
                            }}};
};

TEST_F(MemoryReliefTest, NothingIsDoneWhileThereIsEnough) {
  EXPECT_EQ(done_until_it_ends(ReserveLeft::kHalf), "");
}

TEST_F(MemoryReliefTest, NobodyIsCutForWhatTheHeapHasFree) {
  EXPECT_EQ(done_until_it_ends(), "g");
  EXPECT_EQ(done_until_it_ends(ReserveLeft::kLessThanQuarter), "g");
}

TEST_F(MemoryReliefTest, WhatACutBringsIsAwaitedBeforeTheNext) {
  left_ = [&] { return done_.size() < 4 ? ReserveLeft::kLessThanHalf : ReserveLeft::kHalf; };
  EXPECT_EQ(done_until_it_ends(), "gcgg");
  const auto cuts = [&] { return std::count(done_.begin(), done_.end(), 'c'); };
  left_ = [&] { return cuts() < 2 ? ReserveLeft::kLessThanQuarter : ReserveLeft::kHalf; };
  EXPECT_EQ(done_until_it_ends(), "gc" + std::string(11, 'g') + "cg") << "and then the next is cut";
}

TEST_F(MemoryReliefTest, WhatWasInVainIsNotTriedAgainAtOnce) {
  left_ = [] { return ReserveLeft::kLessThanQuarter; };
  has_calls_ = false;
  EXPECT_EQ(done_until_it_ends(), "g");
  EXPECT_FALSE(relief_.may_help(ReserveLeft::kLessThanQuarter)) << "nobody waits for that";
  relief_.look(ReserveLeft::kLessThanQuarter);
  relief_.await(steady_clock::time_point::max());
}

TEST_F(MemoryReliefTest, NobodyWaitsForADaemonThatEnds) {
  relief_.look(ReserveLeft::kLessThanHalf);
  EXPECT_TRUE(relief_.may_help(ReserveLeft::kHalf));
  std::thread call([&] { relief_.await(steady_clock::time_point::max()); });
  relief_.end();
  call.join();
}

TEST_F(MemoryReliefTest, AWaitHasItsEnd) {
  relief_.look(ReserveLeft::kLessThanHalf);
  relief_.await(steady_clock::now());
  EXPECT_TRUE(relief_.may_help(ReserveLeft::kHalf));
}

}  // namespace
}  // namespace memlease::server
