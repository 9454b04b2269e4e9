#include "client/ordering/look_pauses.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace memlease::internal {
namespace {

using std::chrono::microseconds;

constexpr microseconds kAwake{100};
constexpr int kPausesOfWait = 32;
constexpr int kFineNs = 1000;

}  // namespace

// A thread of a real-time class has none, and needs none.
void LookPauses::make_timers_fine() {
  const int slack_ns = prctl(PR_GET_TIMERSLACK);
  if (slack_ns > kFineNs && prctl(PR_SET_TIMERSLACK, kFineNs) == 0) slack_ns_ = slack_ns;
}

LookPauses::~LookPauses() {
  if (slack_ns_ != 0) (void)prctl(PR_SET_TIMERSLACK, slack_ns_);
}

void LookPauses::pause() {
  const auto lasted = Clock::now() - begin_;
  if (lasted < kAwake) {
    std::this_thread::yield();
    return;
  }
  if (!std::exchange(sleeps_, true)) make_timers_fine();
  std::this_thread::sleep_for(
      std::clamp<Clock::duration>(lasted / kPausesOfWait, microseconds(10), microseconds(1000)));
}

}  // namespace memlease::internal
