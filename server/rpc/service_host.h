// Port between the gRPC services and the daemon around the core. Implemented by Daemon, in tests
// by FakeServiceHost; called by ControlService and AdminService on gRPC's threads.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/core/broker.h"
#include "server/rpc/call_errors.h"
#include "server/rpc/history_waits.h"
#include "server/telemetry/log.h"
#include "server/telemetry/uid_log_limiters.h"
#include "wire/ids.h"

namespace memlease::server {

struct DaemonFacts {
  std::string version;
  std::string incarnation;  // 16 bytes
  std::string directory;
  std::uint64_t uptime_ms = 0;
  std::string huge_pages;
  bool sockets_passed = false;
};

class ServiceHost {
 public:
  virtual ~ServiceHost() = default;
  // Calls fn with the core, which nobody else touches meanwhile. fn must not block.
  virtual void with_broker(const std::function<void(Broker&)>& fn) = 0;
  // Looks for GPUs if the device is one and the core does not know it yet; this loads CUDA, so only
  // a session may cause it. Whether the core knows the device then is up to that. kUnsupported:
  // this daemon can have none.
  virtual absl::Status prepare_device(const std::string& device) = 0;
  // Makes memory for the core, which goes on meanwhile, and calls fn with the core that has it, or
  // with why there is none: what fn leaves unused beyond warm_bytes goes back.
  using Grown = std::function<void(Broker&, const absl::Status&)>;
  virtual void grow(const SegmentPool::Growth& growth, const Grown& fn) = 0;
  // Blocks until what the core has let go of has been given back, or is known to be kept, as far as
  // somebody has looked: on the account that pays for this uid, or all. Not beyond `until`.
  virtual void await_given_back(std::optional<uid_t> uid,
                                std::chrono::steady_clock::time_point until) = 0;
  // Whether the daemon's control group is nearly full, and calls may be cut that have too much of
  // it.
  virtual bool may_be_relieved() const = 0;
  // Blocks until that has been done, but not beyond `until`.
  virtual void await_relief(std::chrono::steady_clock::time_point until) = 0;
  virtual HistoryWaits& history_waits() = 0;
  // Ends the session's connection. kNotFound.
  virtual absl::Status evict(wire::SessionId session) = 0;
  virtual DaemonFacts facts() const = 0;
  // How long clients' hosts wait for other processes' work on the array; 0: their streams wait.
  // Within with_broker() alone.
  virtual std::uint64_t host_waits_ms() const = 0;
  // In the text format of Prometheus. May take milliseconds; the core goes on meanwhile.
  virtual std::string metrics() = 0;
  // Of the services' answers.
  virtual CallErrors& call_errors() = 0;
  virtual Log& log() = 0;
  // What each uid causes in it.
  virtual UidLogLimiters& log_lines() = 0;
};

}  // namespace memlease::server
