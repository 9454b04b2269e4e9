// Sleepers whom somebody has taken off their word, as whoever can read it may.
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "client/session/lost_wakes.h"
#include "wire/futex.h"
#include "wire/shared_word.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using wire::FutexResult;

TEST(LostWakes, MakeSlicesShortForAMinute) {
  LostWakes lost;
  const wire::HalfWord word{7};
  const wire::FutexWait same{&word, 7};
  const wire::FutexWait changed{&word, 6};
  const auto now = LostWakes::Clock::now();
  lost.look(FutexResult::kTimedOut, {&same, 1}, 2s, now);
  lost.look(FutexResult::kWoken, {&changed, 1}, 2s, now);
  lost.look(FutexResult::kChanged, {&changed, 1}, 2s, now);
  lost.look(FutexResult::kTimedOut, {&changed, 1}, 100ms, now);  // where many come at once
  EXPECT_EQ(lost.slice(2s, now), 2s);
  lost.look(FutexResult::kTimedOut, {&changed, 1}, 2s, now);
  EXPECT_EQ(lost.slice(2s, now), 200ms);
  EXPECT_EQ(lost.slice(100ms, now), 100ms);
  lost.look(FutexResult::kTimedOut, {&changed, 1}, 100ms, now + 1s);
  EXPECT_EQ(lost.slice(2s, now + 1s), 20ms);
  lost.look(FutexResult::kTimedOut, {&changed, 1}, 20ms, now + 2s);
  EXPECT_EQ(lost.slice(2s, now + 61s), 20ms);
  EXPECT_EQ(lost.slice(2s, now + 62s), 2s);
  lost.look(FutexResult::kTimedOut, {&changed, 1}, 2s, now + 63s);
  EXPECT_EQ(lost.slice(2s, now + 63s), 200ms);
}

// The words of a page of the daemon's, which a thief can read.
class Stolen : public ::testing::Test {
 protected:
  Stolen() {
    void* const page =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page, MAP_FAILED);
    words_ = static_cast<wire::HalfWord*>(page);
  }
  ~Stolen() override { ::munmap(words_, 4096); }
  // How many it has taken from the first word to the second.
  long steal() { return ::syscall(SYS_futex, &words_[0], FUTEX_REQUEUE, 0, 1, &words_[1], 0); }

  wire::HalfWord* words_ = nullptr;
};

TEST_F(Stolen, ASleepIsNotWokenAndTheNextOnesAreShort) {
  constexpr std::chrono::milliseconds kSlice{300};
  std::thread sleeper([&] {
    const wire::FutexWait wait{&words_[0], 0};
    const auto result = wire::futex_wait({&wait, 1}, kSlice);
    lost_wakes.look(result, {&wait, 1}, kSlice, LostWakes::Clock::now());
    EXPECT_EQ(words_[0].load(), 1U) << "it has slept to the end of its slice";
  });
  while (steal() == 0) std::this_thread::yield();
  words_[0].store(1);
  EXPECT_EQ(wire::futex_wake(words_[0], 1), 0) << "there is nobody to wake any more";
  sleeper.join();
  EXPECT_EQ(lost_wakes.slice(2s, LostWakes::Clock::now()), 200ms);
}

}  // namespace
}  // namespace memlease::internal
