// Has calls of the kernel fail that a daemon makes, one at a time. Used by one thread, and as long
// as the daemon lives.
#pragma once

#include <string>
#include <vector>

#include "tests/support/refused_calls.h"
#include "tests/support/shared_with_daemon.h"

namespace memlease::testing {

class FailingCalls {
 public:
  // With which the daemon is to be started.
  std::vector<std::string> environment() const { return shared_.environment(); }
  // The nth call from now on, of all of its threads, fails with `error`, an errno or kShortResult.
  void arm(KernelCall call, int error, int nth) {
    shared_->failed.store(0);
    shared_->error.store(error);
    shared_->calls_left.store(nth);
    shared_->call.store(call);
  }
  // No call fails any more.
  void disarm() { shared_->call.store(KernelCall::kNone); }
  // Whether one did since arm().
  bool has_failed() const { return shared_->failed.load() != 0; }

 private:
  SharedWithDaemon<RefusedCalls> shared_{"tests/libmemlease_failing_calls.so"};
};

}  // namespace memlease::testing
