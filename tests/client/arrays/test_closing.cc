// An array is closed by one thread while another one is about to read it: whichever comes last
// leaves it.
#include "tests/client/arrays/device_threads.h"

namespace memlease::testing {
namespace {

using internal::ReadAttempt;

class Closing : public DeviceThreads {
 protected:
  Closing() { array.write().publish(); }
  std::shared_ptr<internal::OpenArray> open_here() { return daemon.session()->find_open("a"); }

  static void close(internal::OpenArray& open) {
    std::vector<internal::Departure> departures;
    open.close(departures);
    EXPECT_TRUE(open.owner().leave(departures, internal::kNoInterrupts).ok());
  }

  const Array array = create("a", "host");
};

TEST_F(Closing, IsLeftByAReadThatHasTakenItsHoldTooLate) {
  array.read().release();
  const auto open = open_here();
  const ReadAttempt attempt = open->reader_if_subscribed()->acquire(0, 0);
  ASSERT_EQ(attempt.outcome, internal::ReadOutcome::kAcquired);
  close(*open);
  EXPECT_FALSE(open->left()) << "there is a hold";
  EXPECT_FALSE(open->keep(attempt));
  EXPECT_FALSE(open->left()) << "the end of a hold calls nobody";
  static_cast<void>(client.list());
  EXPECT_TRUE(open->left());
}

TEST_F(Closing, EndsWithTheSubscriptionThatIsUnderWay) {
  daemon.gates.shut("call subscribe");
  Running reading([&] { EXPECT_THROW(static_cast<void>(array.read()), Error); });
  ASSERT_TRUE(daemon.gates.reached("call subscribe"));
  const auto open = open_here();
  close(*open);
  EXPECT_FALSE(open->left()) << "the other thread will do that";
  daemon.gates.open_all();
  reading.join();
  EXPECT_TRUE(open->left());
}

}  // namespace
}  // namespace memlease::testing
