// When it is told of a mechanism that the daemon lacks it or has it again.
#include "gtest/gtest.h"
#include "server/core/mechanism.h"
#include "tests/support/fake_clock.h"

namespace memlease::server {
namespace {

using testing::FakeClock;

class ChangeWatchTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  ChangeWatch watch_{clock_};
};

TEST_F(ChangeWatchTest, AChangeIsToldOnce) {
  EXPECT_EQ(watch_.look(false), std::nullopt) << "it has been there from the start";
  EXPECT_EQ(watch_.look(true), true);
  EXPECT_EQ(watch_.look(true), std::nullopt);
  EXPECT_EQ(watch_.look(false), false);
  EXPECT_EQ(watch_.look(false), std::nullopt);
}

TEST_F(ChangeWatchTest, WhatComesAndGoesWithEachCallIsToldOnceInAPeriod) {
  EXPECT_EQ(watch_.look(true), true);
  EXPECT_EQ(watch_.look(false), false);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(watch_.look(true), std::nullopt);
    EXPECT_EQ(watch_.look(false), std::nullopt) << "nobody was told that it lacks";
  }
  clock_.advance_ms(ChangeWatch::kPeriodMs - 1);
  EXPECT_EQ(watch_.look(true), std::nullopt);
  clock_.advance_ms(1);
  EXPECT_EQ(watch_.look(true), true);
}

TEST_F(ChangeWatchTest, WhatLastsIsToldWhenThePeriodIsOver) {
  EXPECT_EQ(watch_.look(true), true);
  EXPECT_EQ(watch_.look(false), false);
  EXPECT_EQ(watch_.look(true), std::nullopt);
  clock_.advance_ms(ChangeWatch::kPeriodMs);
  EXPECT_EQ(watch_.look(true), true);
  EXPECT_EQ(watch_.look(false), false) << "this may be told at once";
}

}  // namespace
}  // namespace memlease::server
