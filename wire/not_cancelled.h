// pthread_cancel() in the middle of what it would end the process in: what has to be done with each
// thread that was made, or what a library does that knows nothing of it.
#pragma once

#include <pthread.h>

namespace memlease::wire {

// While it lives, this thread is not cancelled; at the next cancellation point afterwards it is.
class NotCancelled {
 public:
  NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace memlease::wire
