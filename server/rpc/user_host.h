// The daemon as the services of one user have it. His calls have the core one at a time, so that he
// is one of those who wait for it, however many calls he makes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/rpc/service_host.h"
#include "wire/mutex.h"

namespace memlease::server {

class UserHost final : public ServiceHost {
 public:
  // `host` outlives it.
  explicit UserHost(ServiceHost& host) : host_(host) {}

  void with_broker(const std::function<void(Broker&)>& fn) override ABSL_LOCKS_EXCLUDED(turn_) {
    wire::MutexLock turn(turn_);
    // What the daemon does after a call is not the user's turn any more.
    host_.with_broker([&](Broker& broker) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      fn(broker);
      turn.unlock();
    });
  }

  absl::Status prepare_device(const std::string& device) override {
    return host_.prepare_device(device);
  }
  void grow(const SegmentPool::Growth& growth, const Grown& fn) override { host_.grow(growth, fn); }
  void await_given_back(std::optional<uid_t> uid,
                        std::chrono::steady_clock::time_point until) override {
    host_.await_given_back(uid, until);
  }
  bool may_be_relieved() const override { return host_.may_be_relieved(); }
  void await_relief(std::chrono::steady_clock::time_point until) override {
    host_.await_relief(until);
  }
  HistoryWaits& history_waits() override { return host_.history_waits(); }
  absl::Status evict(wire::SessionId session) override { return host_.evict(session); }
  DaemonFacts facts() const override { return host_.facts(); }
  std::uint64_t host_waits_ms() const override { return host_.host_waits_ms(); }
  std::string metrics() override { return host_.metrics(); }
  CallErrors& call_errors() override { return host_.call_errors(); }
  Log& log() override { return host_.log(); }
  UidLogLimiters& log_lines() override { return host_.log_lines(); }

 private:
  ServiceHost& host_;
  wire::Mutex turn_{wire::HeldOverLocks(1)};
};

}  // namespace memlease::server
