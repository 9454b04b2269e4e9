// For tests of how a write begins: one array on fakes, and one write of it.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>

#include "absl/status/status.h"
#include "client/arrays/begin_write.h"
#include "client/arrays/wait_limit.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"

namespace memlease::testing {

class BeginWriteTest : public ::testing::Test, protected ArrayWorld {
 protected:
  internal::WaitLimit limit(std::chrono::nanoseconds timeout = {}) {
    return {owner->session(), 0, timeout, {}};
  }
  absl::Status begin(std::chrono::nanoseconds timeout = {},
                     internal::IfNoSlot if_none = internal::IfNoSlot::kExplain) {
    internal::WaitLimit within = limit(timeout);
    return internal::begin_write(*array, within, attempt, if_none);
  }
  // By a user who interrupts whatever waits.
  absl::Status begin_interrupted() {
    const std::uint64_t number =
        owner->session().add_interrupt_check([] { throw std::runtime_error("Ctrl-C"); });
    internal::WaitLimit within(owner->session(), number, std::chrono::seconds(60), {});
    return internal::begin_write(*array, within, attempt);
  }
  void publish_next() {
    ASSERT_TRUE(begin().ok());
    array->end_write(attempt.slot, attempt.version, true);
  }
  void expect_nothing_begun() {
    EXPECT_FALSE(array->writing().entered());
    EXPECT_FALSE(array->in_use());
  }

  std::shared_ptr<internal::OpenArray> array = open();
  internal::WriteAttempt attempt;
};

}  // namespace memlease::testing
