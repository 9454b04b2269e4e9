// Threads inherit the signal mask of the thread that makes them: the user's signals are not for
// those that the library starts. And a handler that runs in the middle of a wait makes some waits
// begin anew.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace memlease::wire {

// While it lives, this thread and those that it starts leave all signals to the others, or for
// later, but for what a thread itself does wrong. Belongs to one thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      sigdelset(&blocked, own);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace memlease::wire
