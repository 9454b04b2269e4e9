// The composition root: puts the core, its memory, the channels and the services together, and
// calls the core under the daemon's one mutex.
//
// Threads: the event loop's (attach channel, timers, signals), gRPC's (calls). Whatever they want
// of the core they want through with_broker().
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/channel/attach_server.h"
#include "server/config/config.h"
#include "server/config/directory.h"
#include "server/core/broker.h"
#include "server/core/late_wakes.h"
#include "server/core/mechanism.h"
#include "server/core/payers.h"
#include "server/core/session_host.h"
#include "server/device/memfd_device_backend.h"
#include "server/device/spare_pages.h"
#include "server/disposer.h"
#include "server/gpus.h"
#include "server/loop/event_loop.h"
#include "server/loop/service_manager.h"
#include "server/memory_relief.h"
#include "server/memory_reserve.h"
#include "server/report/history_log.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/history_waits.h"
#include "server/rpc/service_host.h"
#include "server/scrape/http_endpoint.h"
#include "server/system.h"
#include "server/telemetry/log.h"
#include "server/telemetry/uid_log_limiters.h"
#include "wire/mutex.h"

namespace memlease::server {

class Daemon final : public SessionHost, public ServiceHost {
 public:
  // What it works with; all outlive it.
  struct Surroundings {
    Directory& directory;
    EventLoop& loop;
    ServiceManager& manager;
    Log& log;
    MemoryReserve& reserve;
  };
  // Listens when it returns.
  static absl::StatusOr<std::unique_ptr<Daemon>> start(const Config& config,
                                                       const Surroundings& surroundings);
  ~Daemon() override;

  // SIGTERM: no new sessions, opens and leases; ends the loop when no lease lives any more, or
  // after drain_timeout_s. Takes the attach socket's name away, unless it was passed: who connects
  // finds another daemon. A repeat ends it at once. On the loop's thread.
  void drain();

  // SIGHUP: limits, timeouts and log level of `config` hold from now on; nobody loses what they
  // have. The rest of it is what the daemon was started with. On the loop's thread.
  void reload(const Config& config) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells the service manager what is going on; from then on it hears of changes by itself, at most
  // once a second. On the loop's thread.
  void tell_status() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns when the core is free: the sign of life for the watchdog.
  void probe() ABSL_LOCKS_EXCLUDED(mutex_) { const wire::MutexLock lock(mutex_); }

  // SessionHost, on the loop's thread.
  absl::StatusOr<NewSession> open_session(const PeerIdentity& peer) override;
  absl::StatusOr<FileGrant> fetch_file(wire::SessionId session, wire::FileId file,
                                       bool writable) override;
  absl::StatusOr<OpenedArray> open_array(wire::SessionId session, wire::OpeningCall call,
                                         const std::string& request) override;
  bool hang_up(wire::SessionId session, Farewell farewell) override;
  bool program_replaced(wire::SessionId session) override;
  void exited(wire::SessionId session) override;

  // ServiceHost, on any thread.
  void with_broker(const std::function<void(Broker&)>& fn) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status prepare_device(const std::string& device) override;
  void grow(const SegmentPool::Growth& growth, const Grown& fn) override;
  bool may_be_relieved() const override;
  void await_relief(std::chrono::steady_clock::time_point until) override;
  HistoryWaits& history_waits() override { return history_waits_; }
  void await_given_back(std::optional<uid_t> uid,
                        std::chrono::steady_clock::time_point until) override;
  absl::Status evict(wire::SessionId session) override;
  DaemonFacts facts() const override;
  std::uint64_t host_waits_ms() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string metrics() override ABSL_LOCKS_EXCLUDED(mutex_);
  CallErrors& call_errors() override { return call_errors_; }
  Log& log() override { return log_; }
  UidLogLimiters& log_lines() override { return log_lines_; }

 private:
  // For anything new.
  bool has_memory() {
    return reserve_.is_there() && reserve_left() != wire::ReserveLeft::kLessThanQuarter;
  }
  Daemon(const Config& config, const Surroundings& surroundings);
  absl::Status listen(const Config& config);
  ConnectionBook book();
  PayerOf payer_of() {
    return [this](uid_t uid) { return payers_.of(uid); };
  }
  Config config() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts down what has come or gone of that which may do so with each call.
  void look_at_mechanisms() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives what has happened to the log, to the calls that wait for it, and to the watch of added
  // slots.
  void announce(const std::vector<HistoryEvent>& events);
  // Ends the loop after idle_exit_s without anything worth staying for. On the loop's thread.
  void watch_idleness();
  bool idle() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool can_be_found() const;
  void continue_drain();
  // Tells the operator when sockets or lock file are not to be found any more.
  void watch_directory();
  // While there are added slots or withdrawn arrays: looks every second what nobody uses any more.
  // On the loop's thread.
  void watch_unused(std::chrono::milliseconds after);
  void give_back_unused();
  // For the next one who opens a first array. On the loop's thread.
  void make_spare_pages() ABSL_LOCKS_EXCLUDED(mutex_);
  // While sessions with many arrays end: works that off, with pauses in which others are served. On
  // the loop's thread.
  void watch_ends() ABSL_LOCKS_EXCLUDED(mutex_);
  DeviceBackend& backend(const std::string& device);

  Directory& directory_;
  EventLoop& loop_;
  ServiceManager& manager_;
  Log& log_;
  MemoryReserve& reserve_;
  struct Discarded {
    uid_t payer;
    std::shared_ptr<Garbage> garbage;
  };
  using Discards = std::vector<Discarded>;
  class Crowd;

  Payers payers_{::geteuid()};
  UidLogLimiters log_lines_;      // of what happens to sessions and arrays
  UidLogLimiters warning_lines_;  // of connections that are refused or cut: not lost among those
  HistoryLog history_log_;
  const std::chrono::steady_clock::time_point started_;
  const wire::Incarnation incarnation_;
  const std::unique_ptr<Clock> clock_;
  std::atomic<std::uint64_t> heap_bytes_{0};  // Quota::heap_bytes(), for those without the mutex
  MemfdDeviceBackend host_memory_;
  Gpus gpus_;

  mutable wire::Mutex mutex_{wire::HeldOverLocks(2)};
  Config config_ ABSL_GUARDED_BY(mutex_);
  ChangeWatch memory_watch_ ABSL_GUARDED_BY(mutex_);
  ChangeWatch huge_pages_watch_ ABSL_GUARDED_BY(mutex_);
  bool status_is_due_ ABSL_GUARDED_BY(mutex_) = false;  // tell_status() will be called again
  // A call's garbage goes when the mutex is free again.
  Discards discards_ ABSL_GUARDED_BY(mutex_);
  Disposer disposer_{[this](const std::function<void()>& settle) {
    const wire::MutexLock lock(mutex_);
    settle();
  }};
  SparePages spare_pages_ ABSL_GUARDED_BY(mutex_){host_memory_};
  Broker broker_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t announced_ ABSL_GUARDED_BY(mutex_) = 0;  // the last event that announce() has had

  MemoryRelief relief_;
  CallErrors call_errors_;
  HistoryWaits history_waits_;
  EventLoop::TimerId idle_timer_;
  EventLoop::TimerId unused_timer_;
  EventLoop::TimerId ends_timer_;
  std::vector<std::string> lost_;  // as Directory has it; on the loop's thread
  std::atomic<std::size_t> lost_count_{0};
  std::chrono::steady_clock::time_point drain_end_;
  std::unique_ptr<AttachServer> attach_server_;
  std::unique_ptr<GrpcServer> grpc_server_;
  std::unique_ptr<HttpEndpoint> metrics_endpoint_;  // nullptr: metrics are not served
};

}  // namespace memlease::server
