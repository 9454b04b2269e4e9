// The steps by which a descriptor becomes readable again, and what becomes of it without one: it is
// not readable though there is a version, or readable though there is none. slot_steps.h tells how
// they are played.

#include <future>

#include "tests/client/arrays/device_threads.h"
#include "tests/client/slots/slot_steps.h"
#include "tests/support/readable.h"

namespace memlease::testing {
namespace {

class Arrays {
 public:
  Array create(const std::string& name) const { return client_.create(words(name, 8)); }
  // Within a limit, which is short where it is not to become so.
  static bool becomes_readable(int fd, const char* left_out) {
    return readable(fd, internal::leaves_out(left_out) ? 50 : 20'000);
  }

 private:
  LocalDaemon daemon_;
  Client client_ = Client::connect();
};

bool a_version_between_the_take_and_the_wait_counts() {
  const Arrays arrays;
  const Array array = arrays.create("a");
  array.write().publish();
  Follower follower = array.follow();
  at("event.taken", [&] { array.write().publish(); });
  const int fd = follower.event_fd();
  EXPECT_EQ(follower.next().version(), 1U);
  return Arrays::becomes_readable(fd, "wait from what was taken");
}

bool the_thread_hears_of_what_comes_while_it_waits() {
  const Arrays arrays;
  const Array quiet = arrays.create("quiet");
  const Array array = arrays.create("a");
  Follower first = quiet.follow();
  Follower second = array.follow();
  std::promise<void> waits;
  at("event.wait", [&] { waits.set_value(); });
  first.event_fd();
  waits.get_future().wait();
  const int fd = second.event_fd();
  array.write().publish();
  return Arrays::becomes_readable(fd, "tell the thread");
}

bool what_an_earlier_round_saw_is_of_that_round() {
  const Arrays arrays;
  const Array array = arrays.create("a");
  const Array other = arrays.create("other");
  array.write().publish();
  other.write().publish();
  Follower follower = array.follow();
  Follower others = other.follow();
  std::promise<void> seen, taken;
  at("event.seen", [&] {
    seen.set_value();
    taken.get_future().wait();
  });
  const int fd = follower.event_fd();
  seen.get_future().wait();
  EXPECT_EQ(follower.next().version(), 1U);
  taken.set_value();
  EXPECT_TRUE(readable(others.event_fd(), 20'000)) << "the thread has begun another round";
  return !readable(fd, 0);
}

const Step kEventSteps[] = {
    {"AVersionBetweenTheTakeAndTheWaitCounts", "wait from what was taken",
     a_version_between_the_take_and_the_wait_counts},
    {"TheThreadHearsOfWhatComesWhileItWaits", "tell the thread",
     the_thread_hears_of_what_comes_while_it_waits},
    {"WhatAnEarlierRoundSawIsOfThatRound", "tell rounds apart",
     what_an_earlier_round_saw_is_of_that_round},
};

using EventSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, EventSteps, ::testing::ValuesIn(kEventSteps), promise_of);

TEST_P(EventSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(EventSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
