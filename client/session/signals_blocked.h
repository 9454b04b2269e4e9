// Threads inherit the signal mask of the thread that makes them: the user's signals are not for
// those that the library starts.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace memlease::internal {

// While it lives, threads that this one starts leave all signals to the others. Belongs to one
// thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace memlease::internal
