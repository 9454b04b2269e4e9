// The steps by which a read goes to sleep, or a write that waits for another one, and what becomes
// of it without one: what it waits for is there, or has been closed, and it sleeps until its
// deadline.
// slot_steps.h tells how they are played.
#include <chrono>
#include <functional>

#include "client/arrays/begin_write.h"
#include "client/arrays/wait_limit.h"
#include "client/session/wait_news.h"
#include "tests/client/arrays/array_world.h"
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

// A write that waits for another process's, which ends before the daemon says that it has not.
// Where its end goes unseen the daemon is asked again after a pause, and here that does not end.
bool the_end_of_a_write_behind_the_question_is_seen() {
  using State = internal::WriterAnswer::State;
  constexpr wire::RowRef kOther = ArrayWorld::kWriter;
  constexpr wire::RowRef kMine = ArrayWorld::kOwnWriter;
  ArrayWorld world;
  const auto array = world.open();
  auto& other = world.row<wire::WriterRow>(kOther);
  other.writing.store(1);
  server::set_moving(world.board());
  EXPECT_TRUE(array->map_writer_row(kOther, internal::kNoInterrupts).ok());
  world.control->on_acquire_writer = [&] {
    const bool busy = other.writing.exchange(0) != 0;
    if (busy) {
      ++other.publish_count;
    } else {
      server::set_writer(world.board(), kMine, false);
    }
    return internal::WriterAnswer{busy ? State::kBusy : State::kGranted, kMine, kOther, 0};
  };
  never_look_again();
  const std::chrono::milliseconds limit{
      internal::leaves_out("counts before the question") ? 50 : 20'000};
  const Clock::time_point begin = Clock::now();
  internal::WaitLimit within(world.owner->session(), 0, limit, {});
  internal::WriteAttempt attempt;
  const absl::Status begun = internal::begin_write(*array, within, attempt);
  EXPECT_TRUE(begun.ok()) << "the last try is after the deadline: " << begun;
  array->end_write(attempt.slot, attempt.version, true);
  return Clock::now() - begin < limit;
}

// A follower that waits for version 2 until something is closed, after its last look at that. True:
// the wait ends before its deadline.
bool ends_before_the_deadline(
    const std::function<void(const Client&, const Array&, Follower&)>& close) {
  LocalDaemon daemon;
  const Client client = Client::connect();
  const Array array = client.create(words("a", 8));
  // Or the daemon would wake who waits for an array that this process leaves.
  const Client another = Client::connect();
  const Array other = another.open("a");
  array.write().publish();
  never_look_again();
  const bool is_told = !internal::leaves_out("tell who waits");
  const std::chrono::milliseconds limit{is_told ? 20'000 : 50};
  FollowOptions options;
  options.timeout = limit;
  Follower follower = array.follow(options);
  follower.next().release();
  // It looks at what is closed before its first sleep, and after it.
  at("sleep.looked", [] {
    leave_out("");
    internal::wait_news.tell();
  });
  arm_step("sleep.looked", 2, [&] {
    if (!is_told) leave_out("tell who waits");
    close(client, array, follower);
  });
  const Clock::time_point begin = Clock::now();
  EXPECT_THROW(static_cast<void>(follower.next()), Error);
  return Clock::now() - begin < limit;
}

bool closing_the_array_ends_the_sleep() {
  return ends_before_the_deadline(
      [](const Client&, const Array& array, Follower&) { array.close(); });
}

bool closing_the_client_ends_the_sleep() {
  return ends_before_the_deadline(
      [](const Client& client, const Array&, Follower&) { client.close(); });
}

bool closing_the_follower_ends_the_sleep() {
  return ends_before_the_deadline(
      [](const Client&, const Array&, Follower& follower) { follower.close(); });
}

const Step kWaitSteps[] = {
    {"WhatCameBeforeTheCountsIsSeen", "look again before the sleep",
     what_came_before_the_counts_is_seen},
    {"WhatComesAfterTheLookEndsTheSleep", "take the counts first",
     what_comes_after_the_look_ends_the_sleep},
    {"TheEndOfAWriteBehindTheQuestionIsSeen", "counts before the question",
     the_end_of_a_write_behind_the_question_is_seen},
    {"ClosingTheArrayEndsTheSleep", "tell who waits", closing_the_array_ends_the_sleep},
    {"ClosingTheClientEndsTheSleep", "tell who waits", closing_the_client_ends_the_sleep},
    {"ClosingTheFollowerEndsTheSleep", "tell who waits", closing_the_follower_ends_the_sleep},
};

using WaitSteps = Steps;
INSTANTIATE_TEST_SUITE_P(, WaitSteps, ::testing::ValuesIn(kWaitSteps), promise_of);

TEST_P(WaitSteps, KeepTheirPromise) { expect_kept(); }

TEST_P(WaitSteps, AreMissedWhenTheyAreLeftOut) { expect_missed(); }

}  // namespace
}  // namespace memlease::testing
