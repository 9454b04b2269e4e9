// Whoever deletes an object waits for the threads that have a mark on it, and for no others.
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <string>
#include <thread>
#include <utility>

#include "client/arrays/release_mark.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/forked.h"

namespace memlease::internal {
namespace {

using MarkWord = const std::atomic<const void*>*;

// A thread that has a mark on the object until end().
class MarkedThread {
 public:
  explicit MarkedThread(const void* object)
      : thread_([this, object] {
          const ReleaseMark mark(object);
          word_ = own_mark;
          begun_.count_down();
          ends_.wait();
          done_ = true;
        }) {
    begun_.wait();
  }
  ~MarkedThread() {
    if (thread_.joinable()) end();
  }
  MarkedThread(const MarkedThread&) = delete;
  MarkedThread& operator=(const MarkedThread&) = delete;

  // The mark goes, and with it the thread, though nobody waits for that.
  void let_end() {
    if (!std::exchange(may_end_, true)) ends_.count_down();
  }
  void end() {
    let_end();
    thread_.join();
  }
  MarkWord word() const { return word_; }
  // What it did last before its mark went. Not atomic: whoever has waited for the mark may look.
  bool done() const { return done_; }

 private:
  std::latch begun_{1};
  std::latch ends_{1};
  bool may_end_ = false;
  MarkWord word_ = nullptr;
  bool done_ = false;
  std::thread thread_;
};

std::future<void> await_none(const void* object) {
  return std::async(std::launch::async, [object] { ReleaseMark::await_none(object); });
}

bool goes_on_waiting(const std::future<void>& waiting) {
  return waiting.wait_for(std::chrono::milliseconds(5)) == std::future_status::timeout;
}

MarkWord word_of_new_thread() {
  MarkWord word = nullptr;
  std::thread([&] {
    const ReleaseMark mark(&word);
    word = own_mark;
  }).join();
  return word;
}

TEST(ReleaseMark, WhatItsThreadDoesIsDoneBeforeTheObjectGoes) {
  const int object = 0;
  MarkedThread marked(&object);
  auto waiting = std::async(std::launch::async, [&] {
    ReleaseMark::await_none(&object);
    return marked.done();
  });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
  marked.let_end();
  EXPECT_TRUE(waiting.get());
}

TEST(ReleaseMark, KeepsNobodyWhoDeletesAnotherObject) {
  const int object = 0;
  const int other = 0;
  {
    const ReleaseMark gone(&object);
  }
  MarkedThread marked(&other);
  const auto waiting = await_none(&object);
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  marked.let_end();
}

// Whichever ends first: there is a word for each, and all are looked at.
TEST(ReleaseMark, OfEachOfSeveralThreadsIsWaitedFor) {
  const int object = 0;
  {
    const MarkedThread makes_a_word(nullptr);
    const MarkedThread makes_another(nullptr);
  }
  for (const bool older_first : {true, false}) {
    MarkedThread older(&object);
    MarkedThread newer(&object);
    EXPECT_NE(older.word(), newer.word());
    const auto waiting = await_none(&object);
    (older_first ? older : newer).end();
    EXPECT_TRUE(goes_on_waiting(waiting));
    (older_first ? newer : older).end();
    waiting.wait();
  }
}

TEST(ReleaseMark, StandsInTheWordOfAThreadThatHasEnded) {
  const MarkWord first = word_of_new_thread();
  EXPECT_EQ(word_of_new_thread(), first);
  MarkedThread marked(nullptr);
  EXPECT_EQ(marked.word(), first);
  EXPECT_NE(word_of_new_thread(), first) << "that one has not ended";
}

// What a thread keeps in a key of its own may release something once the thread's word is
// another's: a key's destructor runs behind those of the keys that were made before.
struct LateRelease {
  MarkWord word = nullptr;
  MarkWord word_of_another = nullptr;

  static void at_end(void* late) {
    auto& here = *static_cast<LateRelease*>(late);
    const ReleaseMark mark(late);
    here.word = own_mark;
    here.word_of_another = word_of_new_thread();
  }
  static void in_new_thread(LateRelease& late, pthread_key_t key) {
    std::thread([&] {
      const ReleaseMark mark(&late);
      ASSERT_EQ(pthread_setspecific(key, &late), 0);
    }).join();
  }
};

TEST(ReleaseMark, AtTheEndOfAThreadStandsInAWordOfItsOwn) {
  {
    const ReleaseMark makes_its_key_first(nullptr);
  }
  pthread_key_t key{};
  ASSERT_EQ(pthread_key_create(&key, LateRelease::at_end), 0);
  LateRelease late;
  LateRelease::in_new_thread(late, key);
  EXPECT_NE(late.word, nullptr);
  EXPECT_NE(late.word, late.word_of_another);
  LateRelease next;
  LateRelease::in_new_thread(next, key);
  EXPECT_THAT((std::array{next.word, next.word_of_another}),
              ::testing::UnorderedElementsAre(late.word, late.word_of_another))
      << "these, too, have been given back";
  EXPECT_EQ(pthread_key_delete(key), 0);
}

// They do not exist there, so that their marks would never go: an array of the child's may come to
// be where theirs was.
TEST(ReleaseMark, OfAParentsThreadKeepsNobodyInAForkedChild) {
  const int object = 0;
  const MarkedThread marked(&object);
  EXPECT_EQ(testing::in_forked_child([&] {
              ::alarm(10);
              ReleaseMark::await_none(&object);
              return std::string("has not waited");
            }),
            "has not waited");
}

TEST(ReleaseMark, OfTheThreadThatForksStaysInTheChild) {
  const int object = 0;
  const ReleaseMark mark(&object);
  EXPECT_EQ(testing::in_forked_child(
                [&] { return std::string(own_mark->load() == &object ? "stays" : "has gone"); }),
            "stays");
}

}  // namespace
}  // namespace memlease::internal
