// The steps by which a read goes to sleep, and what becomes of it without one: the version is
// there, and the reader sleeps until its deadline. slot_steps.h tells how they are played.
#include <chrono>

#include "tests/client/arrays/device_threads.h"
#include "tests/client/slots/slot_steps.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;

// A reader that waits for version 2, which is published at `step` of its wait. True: it has it
// before its deadline, which is far away unless `left_out` is left out.
bool comes_before_the_deadline(const std::string& step, const char* left_out) {
  LocalDaemon daemon;
  const Client client = Client::connect();
  const Array array = client.create(words("a", 8));
  array.write().publish();
  array.read().release();  // it has subscribed
  never_look_again();      // a wake-up that is lost stays lost
  at(step, [&] { array.write().publish(); });
  const std::chrono::milliseconds limit{internal::leaves_out(left_out) ? 50 : 20'000};
  ReadOptions newer;
  newer.newer_than = 1;
  newer.timeout = limit;
  const Clock::time_point begin = Clock::now();
  const ReadLease lease = array.read(newer);
  EXPECT_EQ(lease.version(), 2U) << "the last try is after the deadline";
  return Clock::now() - begin < limit;
}

bool what_came_before_the_counts_is_seen() {
  return comes_before_the_deadline("sleep.begin", "look again before the sleep");
}

bool what_comes_after_the_look_ends_the_sleep() {
  return comes_before_the_deadline("sleep.looked", "take the counts first");
}

const Step kReadSteps[] = {
    {"WhatCameBeforeTheCountsIsSeen", "look again before the sleep",
     what_came_before_the_counts_is_seen},
    {"WhatComesAfterTheLookEndsTheSleep", "take the counts first",
     what_comes_after_the_look_ends_the_sleep},
};

using ReadSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, ReadSteps, ::testing::ValuesIn(kReadSteps), promise_of);

TEST_P(ReadSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(ReadSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
