#include "server/daemon.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/core/figures.h"
#include "server/core/refusals.h"
#include "server/limits.h"
#include "server/report/mechanism_words.h"
#include "server/report/metrics.h"
#include "server/report/metrics_endpoint.h"
#include "server/report/status_line.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/control_service.h"
#include "server/rpc/user_host.h"
#include "wire/array_spec.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDrainStep{20};
// Long enough for a thread that waits for the core to wake up and get it.
constexpr std::chrono::milliseconds kBetweenEnds{1};
constexpr std::chrono::milliseconds kStatusStep{1000};
// What nobody has used between two looks is taken away.
constexpr std::chrono::milliseconds kUnusedLook{1000};
constexpr std::size_t kLooksPerTurn = 4096;  // about a millisecond
constexpr std::chrono::milliseconds kBetweenLooks{10};
constexpr std::chrono::seconds kLogPeriod{10};
// Whoever has taken the last one has gone on by then: it may be on this processor.
constexpr std::chrono::milliseconds kSparePageDelay{1};
// systemd's unit may be started 30 times in a minute, by whoever connects.
constexpr std::chrono::milliseconds kShortestService{5000};

// Copies, as the history goes on without the mutex.
std::vector<HistoryEvent> unannounced(const History& history, std::uint64_t& announced) {
  std::vector<HistoryEvent> events;
  if (announced == history.newest()) return events;
  const History::Page page = history.after(announced, History::kMostEvents);
  for (const HistoryEvent* event : page.events) events.push_back(*event);
  announced = page.through;
  return events;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::start(const Config& config,
                                                      const Surroundings& surroundings) {
  std::unique_ptr<Daemon> daemon(new Daemon(config, surroundings));
  if (auto status = daemon->listen(config); !status.ok()) return status;
  daemon->metrics_endpoint_ =
      serve_metrics(config, surroundings.directory, surroundings.loop, surroundings.log,
                    [self = daemon.get()] { return self->metrics(); });
  daemon->watch_directory();
  daemon->watch_idleness();
  return daemon;
}

Daemon::Daemon(const Config& config, const Surroundings& surroundings)
    : directory_(surroundings.directory),
      loop_(surroundings.loop),
      manager_(surroundings.manager),
      log_(surroundings.log),
      reserve_(surroundings.reserve),
      log_lines_(log_lines_of_a_user(config), kLogPeriod, payer_of()),
      warning_lines_(log_lines_of_a_user(config), kLogPeriod, payer_of()),
      history_log_(surroundings.log, log_lines_),
      started_(SteadyClock::now()),
      incarnation_(new_incarnation()),
      clock_(std::make_unique<SystemClock>()),
      host_memory_(
          config.huge_pages == HugePages::kAuto ? MemfdDeviceBackend::HugePages::kAuto
                                                : MemfdDeviceBackend::HugePages::kNever,
          [this](std::uint64_t wanted_bytes, std::uint64_t held_bytes, wire::ReserveKept kept) {
            return memory_room(wanted_bytes, {held_bytes, heap_bytes_}, kept);
          }),
      config_(config),
      memory_watch_(*clock_),
      huge_pages_watch_(*clock_),
      broker_({host_memory_, spare_pages_, *clock_, fill_random,
               [this](uid_t payer, std::shared_ptr<Garbage> garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                   mutex_) { discards_.push_back({payer, std::move(garbage)}); },
               [this] { return has_memory(); }, payer_of()},
              broker_limits(config)),
      relief_(loop_, {.left = [] { return reserve_left(std::chrono::milliseconds(0)); },
                      .give_back = give_back_heap,
                      .cut = [this] { return grpc_server_->cut_largest(); }}) {
  payers_.set(config.subordinate_uids);
}

Daemon::~Daemon() {
  metrics_endpoint_.reset();
  history_waits_.end_all(shutting_down());
  disposer_.refuse_waits();
  relief_.end();
  if (grpc_server_) grpc_server_->shutdown(std::chrono::system_clock::now());
  if (attach_server_) attach_server_->shutdown();
  disposer_.end();
  loop_.remove(directory_.changes());
}

absl::Status Daemon::listen(const Config& config) {
  auto attach = directory_.listen(wire::kAttachSocket, SOCK_SEQPACKET, config.socket_mode);
  if (!attach.ok()) return attach.status();
  AttachOptions options;
  options.daemon_version = MEMLEASE_VERSION;
  options.incarnation = incarnation_;
  options.payer_of = payer_of();
  options.log = [this](uid_t uid, const AttachOptions::Line& line) {
    log_.write(*warning_lines_.of(uid), LogLevel::kWarning, line);
  };
  auto attach_server = AttachServer::start(&loop_, this, std::move(*attach), std::move(options));
  if (!attach_server.ok()) return attach_server.status();
  attach_server_ = std::move(*attach_server);

  auto control = directory_.listen(wire::kControlSocket, SOCK_STREAM, config.socket_mode);
  if (!control.ok()) return control.status();
  const auto services_of = [this](uid_t uid) {
    GrpcServices services;
    services.host = std::make_unique<UserHost>(*this);
    services.all.push_back(std::make_unique<ControlService>(*services.host, uid));
    auto admin = std::make_unique<AdminService>(*services.host, uid);
    services.expect_calls = [&admin = *admin](CallQueue& queue) { admin.expect_calls(queue); };
    services.all.push_back(std::move(admin));
    return services;
  };
  auto grpc_server = GrpcServer::start(loop_, log_, services_of, GrpcLimits{}, book());
  if (!grpc_server.ok()) return grpc_server.status();
  grpc_server_ = *std::move(grpc_server);
  return grpc_server_->add_listener(std::move(*control));
}

ConnectionBook Daemon::book() {
  return {.account = [this](uid_t uid) -> Account& {
            const wire::MutexLock lock(mutex_);
            return broker_.account(uid);
          },
          .log_lines = [this](uid_t uid) { return warning_lines_.of(uid); },
          .connected =
              [this](uid_t uid) {
                const wire::MutexLock lock(mutex_);
                return broker_.connected(uid);
              },
          .disconnected =
              [this](uid_t uid) {
                const wire::MutexLock lock(mutex_);
                broker_.disconnected(uid);
              },
          .calls_keep_much = [this] { relief_.look(reserve_left()); },
          .heap_is_free = give_back_heap};
}

// ---- ServiceHost.

// Sleepers on words of boards that may be among the discards, which wait until all have been woken.
class Daemon::Crowd final : public Garbage {
 public:
  Crowd(Disposer& disposer, LateWakes::Words words, Discards discards)
      : disposer_(disposer), words_(std::move(words)), discards_(std::move(discards)) {}
  bool go() override {
    wake_crowds(words_);
    for (auto& [payer, garbage] : discards_) disposer_.dispose(payer, std::move(garbage));
    return true;
  }

 private:
  Disposer& disposer_;
  const LateWakes::Words words_;
  Discards discards_;
};

void Daemon::with_broker(const std::function<void(Broker&)>& fn) {
  bool may_be_idle = false;
  bool status_changes = false;
  bool wants_spares = false;
  Discards discards;
  LateWakes::Words crowded;
  std::vector<HistoryEvent> events;
  {
    const LateWakes wakes(crowded);
    const wire::MutexLock lock(mutex_);
    fn(broker_);
    heap_bytes_ = broker_.quota().heap_bytes();
    discards.swap(discards_);
    look_at_mechanisms();
    events = unannounced(broker_.history(), announced_);
    may_be_idle = config_.idle_exit_s != 0 && broker_.idle();
    wants_spares = spare_pages_.begin_making();
    status_changes = manager_.listens() && !std::exchange(status_is_due_, true);
  }
  if (!crowded.empty()) {
    disposer_.dispose(Disposer::kNobodysUid, std::make_shared<Crowd>(disposer_, std::move(crowded),
                                                                     std::exchange(discards, {})));
  }
  for (auto& [payer, garbage] : discards) disposer_.dispose(payer, std::move(garbage));
  if (status_changes) {
    loop_.post([this] { loop_.after(kStatusStep, [this] { tell_status(); }); });
  }
  if (may_be_idle) loop_.post([this] { watch_idleness(); });
  if (wants_spares) {
    loop_.post([this] { loop_.after(kSparePageDelay, [this] { make_spare_pages(); }); });
  }
  if (!events.empty()) announce(events);
}

// One by one, and without the mutex, as it takes a while.
void Daemon::make_spare_pages() {
  std::optional<SparePages::Kind> kind;
  {
    const wire::MutexLock lock(mutex_);
    if (const auto* next = spare_pages_.next()) kind = *next;
    if (!kind) return spare_pages_.end_making();
  }
  auto page =
      host_memory_.create_pages(kind->size_bytes, kind->daemon_writes, wire::ReserveKept::kAll);
  {
    const wire::MutexLock lock(mutex_);
    spare_pages_.keep(*kind, page.ok() ? *std::move(page) : nullptr);
  }
  loop_.post([this] { make_spare_pages(); });
}

void Daemon::look_at_mechanisms() {
  if (const auto lacks = memory_watch_.look(!has_memory())) {
    broker_.mechanism_changed(memory_change(*lacks));
  }
  if (const auto lacks = huge_pages_watch_.look(host_memory_.lacks_huge_pages())) {
    broker_.mechanism_changed(huge_pages_change(*lacks));
  }
}

void Daemon::announce(const std::vector<HistoryEvent>& events) {
  bool to_watch = false;
  for (const HistoryEvent& event : events) {
    history_log_.write(event);
    to_watch = to_watch || event.what == Happening::kGrown || event.what == Happening::kWithdrawn ||
               wire::is_replica_name(event.array);
  }
  if (to_watch) loop_.post([this] { watch_unused(kUnusedLook); });
  history_waits_.happened(events);
}

absl::Status Daemon::prepare_device(const std::string& device) {
  if (device == host_memory_.device()) return absl::OkStatus();
  std::vector<std::string> names;
  auto status = gpus_.look([&](const Gpus::Found& found) {
    with_broker([&](Broker& broker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const DeviceLimits limits = gpu_limits(config_);
      for (const auto& gpu : found) broker.add_device(*gpu, limits);
    });
    for (const auto& gpu : found) names.push_back(gpu->device());
  });
  for (const std::string& name : names) log_.info("GPU found", {{"device", name}});
  return status;
}

DeviceBackend& Daemon::backend(const std::string& device) {
  if (device == host_memory_.device()) return host_memory_;  // whoever looks for GPUs takes long
  DeviceBackend* const gpu = gpus_.find(device);
  return gpu != nullptr ? *gpu : host_memory_;
}

void Daemon::grow(const SegmentPool::Growth& growth, const Grown& fn) {
  SegmentPool::Growth made = growth;
  auto memory = SegmentPool::make(backend(growth.device), made);
  with_broker([&](Broker& broker) {
    fn(broker, broker.add_memory(made, std::move(memory)));
    broker.return_surplus(growth.device);
  });
}

void Daemon::await_given_back(std::optional<uid_t> uid, SteadyClock::time_point until) {
  disposer_.await(uid ? std::optional(payer_of()(*uid)) : std::nullopt, until);
}

// A millisecond, so that whoever is refused again and again keeps nobody from the core.
bool Daemon::may_be_relieved() const {
  return relief_.may_help(reserve_left(std::chrono::milliseconds(1)));
}

void Daemon::await_relief(SteadyClock::time_point until) {
  relief_.look(reserve_left(std::chrono::milliseconds(1)));
  relief_.await(until);
}

absl::Status Daemon::evict(wire::SessionId session) {
  loop_.post([this, session] {
    attach_server_->disconnect(
        session, wire::make_error(wire::ErrorCode::kDaemonLost, "this session has been evicted",
                                  "Ask the operator of this daemon why, then connect again."));
  });
  return absl::OkStatus();
}

DaemonFacts Daemon::facts() const {
  DaemonFacts facts;
  facts.version = MEMLEASE_VERSION;
  facts.incarnation.assign(reinterpret_cast<const char*>(incarnation_.data()), incarnation_.size());
  facts.directory = directory_.path();
  facts.uptime_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(SteadyClock::now() - started_).count());
  facts.huge_pages = host_memory_.huge_pages();
  facts.sockets_passed = directory_.sockets_passed();
  return facts;
}

std::uint64_t Daemon::host_waits_ms() const {
  return config_.event_waits == EventWaits::kHost ? config_.event_wait_timeout_s * 1000 : 0;
}

// ---- For the operator.

// Not by with_broker(): to be looked at keeps no daemon from ending when it is idle.
std::string Daemon::metrics() {
  FigureCollector collector;
  {
    const wire::MutexLock lock(mutex_);
    collector.begin(broker_);
  }
  for (bool more = true; more;) {
    const wire::MutexLock lock(mutex_);
    more = collector.step(broker_);
  }
  const Config config = this->config();
  const Degradations degradations{
      .no_huge_pages = config.huge_pages == HugePages::kAuto &&
                       (!host_memory_.uses_huge_pages() || host_memory_.lacks_huge_pages()),
      .hosts_wait = config.event_waits == EventWaits::kHost,
      .lost_files = lost_count_,
      .no_memory = !has_memory()};
  return metrics_text(collector.take(), facts(), degradations, call_errors_,
                      grpc_server_->gate_cuts());
}

Config Daemon::config() const {
  const wire::MutexLock lock(mutex_);
  return config_;
}

void Daemon::reload(const Config& config) {
  with_broker([&](Broker& broker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (config.event_waits != config_.event_waits) {
      broker.mechanism_changed(event_waits_change(config.event_waits == EventWaits::kHost));
    }
    config_ = config;
    broker.set_limits(broker_limits(config), gpu_limits(config));
  });
  payers_.set(config.subordinate_uids);
  log_.set_level(config.log_level);
  watch_idleness();
}

void Daemon::tell_status() {
  std::string line;
  {
    const wire::MutexLock lock(mutex_);
    status_is_due_ = false;
    line = status_line(broker_);
  }
  if (!lost_.empty()) line = fmt::format("nobody new can connect: {} is gone; {}", lost_[0], line);
  manager_.set_status(line);
}

void Daemon::watch_directory() {
  const auto look = [this](std::uint32_t) {
    const std::vector<std::string> lost = directory_.lost();
    if (lost == lost_) return;
    std::vector<MechanismChange> changes = directory_changes(lost_, lost);
    lost_ = lost;
    lost_count_ = lost.size();
    with_broker([&](Broker& broker) {
      for (MechanismChange& change : changes) broker.mechanism_changed(std::move(change));
    });
    tell_status();
    watch_idleness();
  };
  if (directory_.changes() >= 0 && loop_.add(directory_.changes(), EPOLLIN, look).ok()) return;
  log_.warning("the directory cannot be watched: if its sockets are removed, nobody will say so",
               {{"directory", directory_.path()},
                {"hint", "Raise fs.inotify.max_user_instances (see sysctl(8))."}});
}

// ---- What nobody uses any more.

void Daemon::watch_unused(std::chrono::milliseconds after) {
  if (unused_timer_ == EventLoop::TimerId{}) {
    unused_timer_ = loop_.after(after, [this] { give_back_unused(); });
  }
}

void Daemon::give_back_unused() {
  unused_timer_ = {};
  bool more = false;
  bool goes_on = false;
  with_broker([&](Broker& broker) {
    if (!broker.looks_for_unused()) broker.take_idle_slots(kLooksPerTurn);
    goes_on = broker.looks_for_idle_slots();
    const bool unused = !goes_on && broker.give_back_unused(kLooksPerTurn);
    goes_on = goes_on || broker.looks_for_unused();
    more = unused || goes_on || broker.added_slots() != 0;
  });
  if (more) watch_unused(goes_on ? kBetweenLooks : kUnusedLook);
}

void Daemon::watch_ends() {
  bool under_way = false;
  {
    const wire::MutexLock lock(mutex_);
    under_way = broker_.sessions_are_ending();
  }
  if (!under_way) return watch_idleness();
  if (ends_timer_ != EventLoop::TimerId{}) return;
  ends_timer_ = loop_.after(kBetweenEnds, [this] {
    ends_timer_ = {};
    with_broker([](Broker& broker) { broker.work_off_ends(); });
    watch_ends();
  });
}

// ---- Ending.

// Others may be connected already. Without the lock file alone the daemon is found as ever.
bool Daemon::can_be_found() const {
  const std::string lock_file = fmt::format("{}/{}", directory_.path(), wire::kLockFile);
  return std::ranges::all_of(lost_, [&](const std::string& path) { return path == lock_file; });
}

// A persistent array is worth staying for, but not where nobody can come for it.
bool Daemon::idle() const {
  const wire::MutexLock lock(mutex_);
  return broker_.idle() || (broker_.sessions().size() == 0 && !can_be_found());
}

void Daemon::watch_idleness() {
  loop_.cancel(idle_timer_);
  const std::uint64_t idle_exit_s = config().idle_exit_s;
  if (idle_exit_s == 0 || !idle()) return;
  std::chrono::milliseconds after = std::chrono::seconds(idle_exit_s);
  if (directory_.sockets_passed()) {
    const auto lived = std::chrono::floor<std::chrono::milliseconds>(SteadyClock::now() - started_);
    after = std::max(after, kShortestService - lived);
  }
  idle_timer_ = loop_.after(after, [this, idle_exit_s] {
    if (!idle()) return;
    std::size_t arrays = 0;
    with_broker([&](Broker& broker) { arrays = broker.catalog().size(); });
    if (arrays == 0) {
      log_.info("nobody has needed this daemon for a while: ending",
                {{"idle_exit_s", idle_exit_s}});
    } else {
      log_.warning("nobody is connected and nobody can find this daemon: ending with its arrays",
                   {{"idle_exit_s", idle_exit_s}, {"arrays", arrays}, {"gone", lost_.front()}});
    }
    loop_.stop();
  });
}

void Daemon::drain() {
  if (drain_end_ != SteadyClock::time_point{}) {
    log_.warning("asked to end again: ending at once");
    loop_.stop();
    return;
  }
  const std::uint64_t drain_timeout_s = config().drain_timeout_s;
  drain_end_ = SteadyClock::now() + std::chrono::seconds(drain_timeout_s);
  grpc_server_->set_serving(false);
  directory_.remove(wire::kAttachSocket);
  with_broker([](Broker& broker) { broker.drain(); });
  log_.info("draining: no new leases", {{"drain_timeout_s", drain_timeout_s}});
  continue_drain();
}

// Leases end without a call, so they have to be looked at; only while draining.
void Daemon::continue_drain() {
  const bool late = SteadyClock::now() >= drain_end_;
  bool in_use = false;
  std::string holders;
  with_broker([&](Broker& broker) {
    in_use = broker.in_use();
    if (in_use && late) holders = lease_holders(broker);
  });
  if (!in_use) log_.info("drained");
  if (in_use && late) {
    log_.warning(
        "drain_timeout_s is over: ending although leases are held",
        {{"held_by", holders},
         {"hint",
          "Their processes keep what they have mapped, and get DaemonLost. Raise "
          "drain_timeout_s, and TimeoutStopSec= in the unit, if they should have longer."}});
  }
  if (!in_use || late) {
    loop_.stop();
    return;
  }
  loop_.after(kDrainStep, [this] { continue_drain(); });
}

}  // namespace memlease::server
