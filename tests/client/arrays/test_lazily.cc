// Parts that are made when somebody first needs them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <set>
#include <thread>
#include <vector>

#include "client/arrays/lazily.h"

namespace memlease::internal {
namespace {

struct Part {
  Part() { ++alive; }
  ~Part() { --alive; }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  inline static std::atomic<int> alive{0};
};

TEST(Lazily, IsMadeOnceWithItsFirstUseAndEndsWithItsOwner) {
  {
    Lazily<Part> part;
    EXPECT_EQ(part.if_made(), nullptr);
    EXPECT_EQ(Part::alive, 0);
    Part& made = part.get();
    EXPECT_EQ(&part.get(), &made);
    EXPECT_EQ(part.if_made(), &made);
    EXPECT_EQ(Part::alive, 1);
  }
  EXPECT_EQ(Part::alive, 0);
}

TEST(Lazily, ThreadsThatComeAtOnceGetTheSameOne) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    Lazily<Part> part;
    std::barrier start(kThreads);
    std::array<Part*, kThreads> found{};
    std::vector<std::jthread> threads;
    for (Part*& mine : found) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        mine = &part.get();
      });
    }
    threads.clear();
    EXPECT_EQ(std::set<Part*>(found.begin(), found.end()).size(), 1U);
    EXPECT_EQ(Part::alive, 1) << "who comes second keeps none";
  }
}

}  // namespace
}  // namespace memlease::internal
