#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "client/slots/spin.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// In a process that has not measured yet: forks while another thread does, and looks whether the
// child can. 0: it could.
int fork_while_measuring(std::chrono::microseconds after) {
  std::thread measuring([] { wake_cost(); });
  const auto begin = Clock::now();
  while (Clock::now() - begin < after) {
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(5);
    ::_exit(wake_cost() > 0ns ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  measuring.join();
  return status;
}

TEST(WakeCost, CanBeMeasuredInAChildThatWasForkedDuringTheFirstMeasurement) {
  for (auto after = 0us; after <= 1500us; after += 100us) {
    const pid_t fresh = ::fork();
    if (fresh == 0) ::_exit(fork_while_measuring(after) == 0 ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(fresh, &status, 0), fresh);
    EXPECT_EQ(status, 0) << after.count() << " us after its begin";
  }
}

TEST(WakeCost, IsMeasuredOnce) {
  EXPECT_GE(wake_cost(), 2us);
  EXPECT_LE(wake_cost(), 50us);
  EXPECT_EQ(wake_cost(), wake_cost());
}

TEST(Spin, EndsWhenACountChanges) {
  wire::HalfWord count{1};
  const wire::FutexWait changed{&count, 0};
  EXPECT_TRUE(spin({&changed, 1}, 0));
  const wire::FutexWait same{&count, 1};
  EXPECT_FALSE(spin({&same, 1}, 0));
}

}  // namespace
}  // namespace memlease::internal
