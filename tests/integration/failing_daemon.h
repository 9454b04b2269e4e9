// memleased with tests/support/failing_calls.cc before it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/failing_calls.h"
#include "tests/support/private_daemon.h"
#include "tests/support/temporary_folder.h"

namespace memlease::testing {

class FailingDaemon {
 public:
  explicit FailingDaemon(std::vector<std::string> flags);
  ~FailingDaemon();
  FailingDaemon(const FailingDaemon&) = delete;
  FailingDaemon& operator=(const FailingDaemon&) = delete;

  PrivateDaemon& operator*() const { return *daemon_; }
  PrivateDaemon* operator->() const { return daemon_.get(); }

  // The nth call from now on, of all of its threads, fails with `error`, an errno or kShortResult.
  void arm(KernelCall call, int error, int nth);
  // No call fails any more.
  void disarm();
  // Whether one did since arm().
  bool has_failed() const { return plan_->failed.load() != 0; }

 private:
  TemporaryFolder folder_;
  FailingCalls* plan_ = nullptr;
  std::unique_ptr<PrivateDaemon> daemon_;
};

}  // namespace memlease::testing
