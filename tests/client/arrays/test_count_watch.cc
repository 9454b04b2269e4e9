// Waiting for a name, or for its turn, sleeps on a count of the daemon's and calls nobody.
#include <sys/mman.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "client/arrays/count_watch.h"
#include "gtest/gtest.h"
#include "tests/support/fake_control.h"
#include "tests/support/fake_files.h"
#include "wire/error.h"
#include "wire/futex.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using wire::ErrorCode;

constexpr wire::FileId kBoard{5};
constexpr std::uint64_t kOffset = 64;

class CountWatchTest : public ::testing::Test {
 protected:
  CountWatchTest() { files->kinds[wire::to_int(kBoard)] = wire::FileKind::kBoard; }

  // As the daemon sees it.
  wire::HalfWord& count() {
    if (page_ == nullptr)
      page_ = *session.mappings().get(kBoard, wire::FileKind::kBoard, kNoInterrupts);
    return *reinterpret_cast<wire::HalfWord*>(page_->data() + kOffset);
  }
  CountAt look() { return {{kBoard, kOffset}, count().load()}; }

  testing::FakeFiles* const files = new testing::FakeFiles;
  testing::FakeControl* const control = new testing::FakeControl;
  Session session{"/here", wire::SessionId{7}, std::unique_ptr<FileSource>(files),
                  std::unique_ptr<ControlPort>(control)};
  CountWatch watch;

 private:
  std::shared_ptr<Mapping> page_;
};

TEST_F(CountWatchTest, EndsOnceSomethingIsCounted) {
  const CountAt seen = look();
  std::promise<void> begun;
  auto waits = std::async(std::launch::async, [&] {
    WaitLimit limit(session, 0, kForever, kForever);
    begun.set_value();
    return watch.await_change(session, seen, limit);
  });
  begun.get_future().wait();
  count().fetch_add(1);
  wire::futex_wake_all(count());
  EXPECT_TRUE(waits.get().ok());
  EXPECT_EQ(control->calls(), 0U);
}

TEST_F(CountWatchTest, DoesNotSleepOnWhatWasCountedSinceTheLook) {
  const CountAt seen = look();
  count().fetch_add(1);
  WaitLimit limit(session, 0, kForever, kForever);
  EXPECT_TRUE(watch.await_change(session, seen, limit).ok());
}

TEST_F(CountWatchTest, SleepsNoLongerThanItIsTold) {
  const CountAt seen = look();
  WaitLimit limit(session, 0, kForever, kForever);
  EXPECT_TRUE(watch.await_change(session, seen, limit, 10ms).ok());
}

// What others create elsewhere on the page does not count either.
TEST_F(CountWatchTest, WithoutACountSleepsUntilItsLimitAndCallsNobody) {
  const CountAt seen = look();
  (&count())[1].fetch_add(1);
  wire::futex_wake_all((&count())[1]);
  WaitLimit limit(session, 0, 30ms, kForever);
  EXPECT_TRUE(watch.await_change(session, seen, limit).ok());
  EXPECT_TRUE(limit.expired());
  EXPECT_EQ(control->calls(), 0U);
}

TEST_F(CountWatchTest, EndsWithAStopAndWithTheDaemon) {
  Stop stop;
  WaitLimit stopped(session, 0, kForever, kForever, kNoInterrupts, &stop);
  const CountAt seen = look();
  stop.request();
  EXPECT_EQ(wire::code_of(watch.await_change(session, seen, stopped)), ErrorCode::kInterrupted);
  files->gone = true;
  WaitLimit lost(session, 0, kForever, kForever);
  EXPECT_EQ(wire::code_of(watch.await_change(session, seen, lost)), ErrorCode::kDaemonLost);
}

TEST_F(CountWatchTest, ACountOutsideOfThePageIsADefectOfTheDaemon) {
  WaitLimit limit(session, 0, kForever, kForever);
  for (const std::uint64_t offset : {testing::FakeFiles::kSizeBytes, kOffset + 2}) {
    EXPECT_EQ(wire::code_of(watch.await_change(session, {{kBoard, offset}, 0}, limit)),
              ErrorCode::kInternal);
  }
}

TEST_F(CountWatchTest, ThePageIsFetchedOnce) {
  for (int i = 0; i < 3; ++i) {
    WaitLimit limit(session, 0, 0ms, kForever);
    EXPECT_TRUE(watch.await_change(session, {{kBoard, kOffset}, 0}, limit).ok());
  }
  EXPECT_EQ(files->fetches.load(), 1);
}

}  // namespace
}  // namespace memlease::internal
