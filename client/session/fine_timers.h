// A thread's sleeps end when they should.
#pragma once

#include <sys/prctl.h>

namespace memlease::internal {

// While it lives, the calling thread's sleeps last a microsecond longer at most, where Linux by
// default adds up to 50. It dies in the same thread.
class FineTimers {
 public:
  // A thread of a real-time class has no such slack, and keeps none.
  FineTimers() {
    const int slack_ns = prctl(PR_GET_TIMERSLACK);
    if (slack_ns > kFineNs && prctl(PR_SET_TIMERSLACK, kFineNs) == 0) slack_ns_ = slack_ns;
  }
  ~FineTimers() {
    if (slack_ns_ != 0) (void)prctl(PR_SET_TIMERSLACK, slack_ns_);
  }
  FineTimers(const FineTimers&) = delete;
  FineTimers& operator=(const FineTimers&) = delete;

 private:
  static constexpr int kFineNs = 1000;
  int slack_ns_ = 0;  // the thread's own, if it has been changed
};

}  // namespace memlease::internal
