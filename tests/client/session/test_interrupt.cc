// What comes of a user's check, as a status.
#include <pthread.h>

#include <stdexcept>
#include <thread>

#include "client/session/interrupt.h"
#include "gtest/gtest.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

TEST(Interrupt, WhatACheckThrowsComesBackAsItWas) {
  const absl::Status status = call_check([] { throw std::out_of_range("Ctrl-C"); });
  EXPECT_EQ(wire::code_of(status), wire::ErrorCode::kInterrupted);
  EXPECT_THROW(std::rethrow_exception(interrupt_of(status)), std::out_of_range);
}

TEST(Interrupt, WithoutACheckOrAnExceptionThereIsNone) {
  EXPECT_TRUE(call_check(nullptr).ok());
  EXPECT_TRUE(call_check([] {}).ok());
}

// As Python ends threads at its exit: an unwinding that nobody may stop.
TEST(Interrupt, AThreadThatEndsInACheckEnds) {
  bool went_on = false;
  std::thread([&] {
    call_check([] { ::pthread_exit(nullptr); }).IgnoreError();
    went_on = true;
  }).join();
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace memlease::internal
