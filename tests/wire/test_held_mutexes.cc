// Builds with a sanitizer end a program that waits, calls or runs the user's code under a mutex.
#include <chrono>
#include <thread>

#include "gtest/gtest.h"
#include "wire/futex.h"
#include "wire/held_mutexes.h"
#include "wire/mutex.h"

namespace memlease::wire {
namespace {

constexpr std::chrono::milliseconds kShort{1};

void sleep_a_moment() {
  const HalfWord word{0};
  const FutexWait wait{&word, 0};
  futex_wait({&wait, 1}, kShort);
}

// Until the end of its time: nobody notifies.
void wait_a_moment(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  CondVar changed;
  changed.wait_until(mutex, std::chrono::steady_clock::now() + kShort);
}

TEST(HeldMutexesDeathTest, NoneIsHeldOverASleep) {
  EXPECT_DEATH(
      {
        Mutex mutex;
        const MutexLock lock(mutex);
        sleep_a_moment();
      },
      "a wait under a mutex, which was locked at .*test_held_mutexes.cc:[0-9]+ in ");
}

TEST(HeldMutexesDeathTest, NoneIsHeldOverAWaitForAnotherThread) {
  EXPECT_DEATH(
      {
        Mutex held{HeldOverLocks(1)};
        Mutex mutex;
        held.lock();
        const MutexLock lock(mutex);
        wait_a_moment(mutex);
      },
      "a wait for another thread under a mutex, which was locked at .*test_held_mutexes.cc:");
}

TEST(HeldMutexesDeathTest, OneThatWasTakenAgainIsHeld) {
  EXPECT_DEATH(
      {
        Mutex mutex;
        MutexLock lock(mutex);
        lock.unlock();
        lock.lock();
        sleep_a_moment();
      },
      "a wait under a mutex");
}

TEST(HeldMutexesDeathTest, OneOfSeveralIsEnough) {
  EXPECT_DEATH(
      {
        Mutex first{HeldOverLocks(1)};
        Mutex second{HeldOverLocks(2)};
        Mutex third;
        first.lock();
        second.lock();
        third.lock();
        first.unlock();
        third.unlock();
        sleep_a_moment();
      },
      "a wait under a mutex");
}

TEST(HeldMutexesDeathTest, NothingIsLockedUnderALeaf) {
  EXPECT_DEATH(
      {
        Mutex outer{HeldOverLocks(1)};
        Mutex leaf;
        Mutex other;
        outer.lock();
        leaf.lock();
        other.lock();
      },
      "another lock under a mutex, which was locked at .*test_held_mutexes.cc:.* it is a leaf");
}

TEST(HeldMutexes, ThoseThatHaveAPlaceAreLockedInThatOrder) {
  Mutex first{HeldOverLocks(1)};
  Mutex second{HeldOverLocks(2)};
  const MutexLock around(first);
  const MutexLock lock(second);
}

TEST(HeldMutexesDeathTest, TheyAreNotLockedInAnother) {
  EXPECT_DEATH(
      {
        Mutex first{HeldOverLocks(1)};
        Mutex second{HeldOverLocks(2)};
        const MutexLock around(second);
        const MutexLock lock(first);
      },
      "another lock under a mutex, which was locked at .*test_held_mutexes.cc:.* it comes later");
}

TEST(HeldMutexesDeathTest, OfTwoThatHaveTheSamePlaceNoneIsLockedUnderTheOther) {
  EXPECT_DEATH(
      {
        Mutex one{HeldOverLocks(1)};
        Mutex other{HeldOverLocks(1)};
        const MutexLock around(one);
        const MutexLock lock(other);
      },
      "it comes later in the order of mutexes, or has the same place");
}

TEST(HeldMutexes, ALeafIsLockedUnderWhatSaysSo) {
  Mutex outer{HeldOverLocks(1)};
  Mutex leaf;
  const MutexLock around(outer);
  {
    const MutexLock lock(leaf);
  }
  const MutexLock again(leaf);
}

TEST(HeldMutexesDeathTest, WhatIsHeldOverWaitsAloneIsALeaf) {
  EXPECT_DEATH(
      {
        Mutex leaf{kHeldOverWaits};
        Mutex other;
        leaf.lock();
        other.lock();
      },
      "another lock under a mutex");
}

TEST(HeldMutexes, OneThatIsHeldOverBothSaysBoth) {
  Mutex outer(kHeldOverWaits, HeldOverLocks(1));
  Mutex leaf{kHeldOverWaits};
  const MutexLock around(outer);
  const MutexLock lock(leaf);
  sleep_a_moment();
}

TEST(HeldMutexes, WhatIsNotHeldAnyMoreCountsForNothing) {
  Mutex first{HeldOverLocks(1)};
  Mutex second;
  first.lock();
  MutexLock lock(second);
  first.unlock();
  lock.unlock();
  sleep_a_moment();
  lock.lock();
}

TEST(HeldMutexes, AWaitGivesItsOwnUp) {
  Mutex mutex;
  const MutexLock lock(mutex);
  wait_a_moment(mutex);
}

TEST(HeldMutexes, WhatOthersHoldCountsForNothing) {
  Mutex mutex;
  const MutexLock lock(mutex);
  std::thread(sleep_a_moment).join();
}

TEST(HeldMutexes, AMutexMaySayThatItIsHeldOverWaits) {
  Mutex mutex{kHeldOverWaits};
  const MutexLock lock(mutex);
  sleep_a_moment();
}

TEST(HeldMutexes, AChildAbandonsWhatItsParentHolds) {
  Mutex mutex;
  mutex.lock();
  mutex.abandon();
  sleep_a_moment();
}

}  // namespace
}  // namespace memlease::wire
