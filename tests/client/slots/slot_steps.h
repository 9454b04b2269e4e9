// Plays of the slot protocol: one interleaving each, step by step on plain pages. What the other
// side does meanwhile happens at a crash_point. A promise must hold; with its step left out it must
// not, or the play would prove nothing.
#pragma once

#include <algorithm>
#include <functional>
#include <ostream>
#include <span>
#include <string>

#include "gtest/gtest.h"
#include "tests/client/slots/slot_world.h"
#include "tests/support/crash_point.h"
#include "wire/futex.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::testing {

struct Step {
  std::string promise;
  std::string left_out;
  bool (*play)();  // true: the promise was kept
};
inline void PrintTo(const Step& step, std::ostream* out) { *out << step.left_out; }

class Steps : public ::testing::TestWithParam<Step> {
 protected:
  void TearDown() override { forget_steps(); }
  void expect_kept() { EXPECT_TRUE(GetParam().play()); }
  void expect_missed() {
    leave_out(GetParam().left_out);
    EXPECT_FALSE(GetParam().play()) << "nothing is lost without it: " << GetParam().left_out;
  }
};
inline std::string promise_of(const ::testing::TestParamInfo<Step>& test) {
  return test.param.promise;
}

// At the next passage of `step`.
inline void at(const std::string& step, std::function<void()> action) {
  arm_step(step, 1, std::move(action));
}

// Nobody has changed what a sleeper would compare.
inline bool would_sleep(std::span<const wire::FutexWait> words) {
  return std::all_of(words.begin(), words.end(), [](const wire::FutexWait& wait) {
    return wait.word->load() == wait.expected;
  });
}

// The version that the current writer's row has in the slot of `attempt` is the one it is for.
inline bool stands(SlotWorld& world, const internal::ReadAttempt& attempt, std::uint32_t writer) {
  return attempt.outcome == internal::ReadOutcome::kAcquired &&
         world.writer_row(writer).slot_words()[attempt.slot].load() == attempt.version;
}

// Two slots: version 1 in one, which reader 0 holds, and version 2 in the other.
struct Held {
  SlotWorld world{2, 2};
  internal::ReadAttempt first;
  Held() {
    world.publish();
    first = world.reader(0).acquire(0, 0);
    world.publish();
  }
};

}  // namespace memlease::testing
