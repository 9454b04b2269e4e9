#include "client/rpc/control_channel.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "client/rpc/poll_set.h"
#include "client/session/busy_retries.h"
#include "client/session/fork_guard.h"
#include "fmt/format.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel_posix.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"
#include "wire/grpc/grpc_needs.h"
#include "wire/grpc/thread_reserve.h"
#include "wire/held_mutexes.h"
#include "wire/mutex.h"
#include "wire/not_cancelled.h"
#include "wire/signals_blocked.h"
#include "wire/standard_descriptors.h"

namespace memlease::internal {
namespace {

using Clock = std::chrono::steady_clock;

// To one daemon.
struct Line {
  const std::shared_ptr<grpc::Channel> channel;
  int calls = 0;  // in flight on it; guarded by the state's mutex
};

struct State {
  // By the number of the socket.
  using Lines = std::map<std::uint64_t, std::shared_ptr<Line>>;

  wire::Mutex mutex{wire::HeldOverLocks(1)};
  wire::CondVar changed;
  wire::CondVar stopped;  // the lingerer is to end; calls begin and end without waking it
  unsigned calls ABSL_GUARDED_BY(mutex) = 0;         // in flight
  unsigned in_user_code ABSL_GUARDED_BY(mutex) = 0;  // of these
  // New calls wait, else busy threads could starve a fork.
  unsigned quiescing ABSL_GUARDED_BY(mutex) = 0;
  bool up ABSL_GUARDED_BY(mutex) = false;         // we hold one grpc_init()
  bool stop ABSL_GUARDED_BY(mutex) = false;       // the lingerer must end now
  bool lingering ABSL_GUARDED_BY(mutex) = false;  // the lingerer has not made its decision yet
  std::thread lingerer ABSL_GUARDED_BY(mutex);
  PollSet poll_set;  // constant
  Clock::time_point last_use ABSL_GUARDED_BY(mutex);
  Lines lines ABSL_GUARDED_BY(mutex);
};

// No call is in flight.
void shut_down(State& s) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s.mutex) {
  if (!s.up || !s.poll_set.whole()) return;  // as drop_channel()
  s.up = false;
  s.lines.clear();
  grpc_shutdown_blocking();
  // A channel holds a reference of its own until it is really destroyed, now and then by a thread
  // of gRPC, which then does the last shutdown: a fork in the middle of that would leave the child
  // with gRPC's mutex locked for ever. Bounded, as somebody else may use this gRPC, too.
  const auto until = Clock::now() + std::chrono::seconds(1);
  while (grpc_is_initialized() != 0 && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  wire::release_reserved_threads();
}

void linger(State& s) {
  const wire::MutexLock lock(s.mutex);
  while (!s.stop) {
    if (s.calls != 0) s.last_use = Clock::now();
    const auto until = s.last_use + kLinger;
    if (Clock::now() >= until) {
      if (wire::has_memory_for_grpc()) break;
      s.last_use = Clock::now();  // it would end the process; so it stays
      continue;
    }
    s.stopped.wait_until(s.mutex, until);
  }
  if (s.calls == 0) shut_down(s);
  s.lingering = false;
}

// Ends with no call in flight, no thread of ours, no gRPC; or, where calls are in user code, with
// these alone, and false.
bool quiesce(State& s) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s.mutex) {
  ++s.quiescing;
  for (;;) {
    while (s.calls != s.in_user_code) s.changed.wait(s.mutex);
    if (s.calls != 0 || !s.lingerer.joinable()) break;
    s.stop = true;
    s.stopped.notify_all();
    std::thread lingerer = std::move(s.lingerer);
    s.mutex.unlock();
    // A process may end in its last thread, which this one may be.
    if (lingerer.get_id() == std::this_thread::get_id()) {
      lingerer.detach();
    } else {
      lingerer.join();
    }
    s.mutex.lock();
    s.stop = false;
  }
  const bool quiet = s.calls == 0;
  if (quiet) shut_down(s);
  --s.quiescing;
  s.changed.notify_all();
  return quiet;
}

// ---- Fork.
//
// Handlers before a fork run in the opposite order of their registration, and gRPC registers its
// own at its first init (where GRPC_ENABLE_FORK_SUPPORT is set). So ours are registered twice: when
// this library is loaded, so that no fork slips into another thread's first call; and after gRPC's,
// so that gRPC is down already when its handler looks. Whichever runs first ends the library's own
// threads, before it takes a mutex: one of them may be about to make a call.

wire::Mutex first_use{wire::kHeldOverWaits, wire::HeldOverLocks(2)};
// Leaked: threads may be in a call while the process exits, and in a forked child the parent's has
// waiters that do not exist.
State* state ABSL_GUARDED_BY(first_use) = nullptr;
bool is_held = false;  // state->mutex is, by the thread that forks, which alone looks at this
bool quiet = false;    // gRPC is down over the fork; likewise
// False: this is a child that has no epoll set of its own.
bool child_may_call ABSL_GUARDED_BY(first_use) = true;

// The handlers are not checked: one takes locks that another gives back.
void hold_calls() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  pause_threads();
  state->mutex.lock();
  quiet = quiesce(*state);
  is_held = true;  // over the fork: no call begins until go_on_in_parent
}

void stop_before_fork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  pause_threads();
  first_use.lock();
  if (state == nullptr || is_held) return;
  first_use.unlock();  // which comes after the state's
  hold_calls();
  first_use.lock();
}

void go_on_in_parent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (is_held) {
    is_held = false;
    state->mutex.unlock();
  }
  first_use.unlock();
}

void begin_again_in_child() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (is_held) {
    is_held = false;
    const PollSet poll_set = state->poll_set;
    child_may_call = child_may_call && quiet && poll_set.whole() && poll_set.renew();
    state->mutex.abandon();
    state = new State;
    state->poll_set = poll_set;
  }
  first_use.unlock();
}

[[maybe_unused]] const int kForkHandlers = [] {
  guard_forks();  // whose mutexes come after these
  return pthread_atfork(stop_before_fork, go_on_in_parent, begin_again_in_child);
}();

void at_exit() {
  first_use.lock();
  State& s = *state;
  first_use.unlock();
  const wire::MutexLock lock(s.mutex);
  quiesce(s);
}

absl::Status prepare_process() ABSL_EXCLUSIVE_LOCKS_REQUIRED(first_use) {
  const wire::SignalsBlocked blocked;
  if (auto threads = wire::reserve_threads("to call the daemon"); !threads.ok()) return threads;
  wire::hold_standard_descriptors();
  grpc_init();
  grpc_shutdown_blocking();
  wire::release_reserved_threads();
  state = new State;
  state->poll_set.find();  // if it is not there, renew() says so
  pthread_atfork(hold_calls, nullptr, nullptr);
  std::atexit(at_exit);  // runs before gRPC's statics are destroyed, which were made earlier
  return absl::OkStatus();
}

absl::Status forked_in_call() {
  return wire::make_error(wire::ErrorCode::kForkedClient,
                          "this process was forked in the middle of a call",
                          "Call connect() in the child, or start workers with spawn.");
}

absl::Status descriptors_closed() {
  return wire::make_error(
      wire::ErrorCode::kUnsupported,
      "this program has closed descriptors that gRPC cannot do without, as daemonisers and "
      "os.closerange() do",
      "Connect after that, or let it close the program's own descriptors alone.");
}

absl::Status too_many_calls(const ControlSocket& to, std::chrono::milliseconds waited) {
  return wire::make_error(
      wire::ErrorCode::kTimeout,
      fmt::format("no call could begin within {} ms: this process makes {} calls to the daemon in "
                  "{} at once already",
                  waited.count(), wire::kCallsOfAClient, to.directory()),
      "Let fewer threads call at once; memleasectl health says whether the daemon answers them.");
}

// Does nothing where there is one. False: no thread can be made.
bool start_lingerer(State& s) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s.mutex) {
  if (s.lingering) return true;
  if (s.lingerer.joinable()) s.lingerer.join();  // it has left its last critical section
  const wire::SignalsBlocked blocked;
  try {
    s.lingerer = std::thread([&s] { linger(s); });
  } catch (const std::system_error&) {
    return false;
  }
  return s.lingering = true;
}

// nullptr: this process makes as many calls as it may, or is about to fork or to exit. That may
// have changed since, or it is `until`, or time to ask for an interrupt.
absl::StatusOr<std::shared_ptr<Line>> begin_call(State& s, const ControlSocket& to,
                                                 Clock::time_point until) {
  const wire::MutexLock lock(s.mutex);
  if (s.quiescing != 0) {
    s.changed.wait_until(s.mutex, std::min(until, Clock::now() + kInterruptInterval));
    return nullptr;
  }
  if (auto room = wire::check_descriptors(); !room.ok()) return room;
  if (s.up ? !s.poll_set.whole() : !s.poll_set.repair()) return descriptors_closed();
  auto known = s.lines.find(to.number());
  if (known == s.lines.end()) {
    auto socket = to.connect();
    if (!socket.ok()) return socket.status();
    const wire::SignalsBlocked blocked;
    if (!s.up) {
      if (auto room = wire::reserve_threads("to call the daemon"); !room.ok()) return room;
      grpc_init();
      s.up = true;
      start_lingerer(s);
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    auto channel =
        grpc::CreateCustomInsecureChannelFromFd("memleased", socket->fd.release(), arguments);
    known = s.lines.emplace(to.number(), std::make_shared<Line>(Line{std::move(channel)})).first;
  }
  if (known->second->calls >= wire::kCallsOfAClient) {
    s.changed.wait_until(s.mutex, std::min(until, Clock::now() + kInterruptInterval));
    return nullptr;
  }
  ++known->second->calls;
  ++s.calls;
  return known->second;
}

// begin_call(), once there is room for one more connection or call. Nothing: a moment has passed,
// and it is to be tried again.
absl::StatusOr<std::shared_ptr<Line>> await_call(State& s, const ControlSocket& to,
                                                 std::chrono::milliseconds longest,
                                                 Clock::time_point end, BusyRetries& retries,
                                                 InterruptCheck check) {
  auto line = begin_call(s, to, end);
  if (!line.ok()) {
    if (auto stop = retries.after(line.status()); !stop.ok()) return stop;
    return nullptr;
  }
  if (*line != nullptr) return line;
  if (auto stop = check(); !stop.ok()) return stop;
  if (Clock::now() >= end) return too_many_calls(to, longest);
  return nullptr;
}

// Without its poll set gRPC would abort.
void drop_channel(State& s, const ControlSocket& to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s.mutex) {
  if (s.poll_set.whole()) s.lines.erase(to.number());
}

void end_call(State& s, const ControlSocket& to, std::shared_ptr<Line> line, bool broken) {
  const wire::MutexLock lock(s.mutex);
  --line->calls;
  line = nullptr;  // before gRPC may be shut down
  if (broken) drop_channel(s, to);
  s.last_use = Clock::now();
  if (--s.calls == 0 && s.up && !start_lingerer(s)) shut_down(s);
  s.changed.notify_all();
}

}  // namespace

absl::Status run_user_code(absl::FunctionRef<absl::Status()> run) {
  wire::expect_no_mutex_held("code of the user's in the middle of a call");
  State* used = nullptr;
  {
    const wire::MutexLock lock(first_use);
    used = state;
  }
  {
    const wire::MutexLock lock(used->mutex);
    used->in_user_code += 1;
    used->changed.notify_all();
  }
  const std::uint32_t generation = fork_generation();
  // Also where the thread is ended in the middle of it. Calls gather here for who forks or exits:
  // that all of them are in user code at once comes by chance alone.
  const absl::Cleanup back = [&] {
    if (generation != fork_generation()) return;
    const wire::MutexLock lock(used->mutex);
    while (used->quiescing != 0) used->changed.wait(used->mutex);
    used->in_user_code -= 1;
  };
  const absl::Status status = run();
  return generation == fork_generation() ? status : forked_in_call();
}

void forget_control_channel(const ControlSocket& socket) {
  State* used = nullptr;
  {
    const wire::MutexLock lock(first_use);
    used = state;
  }
  if (used == nullptr) return;
  const wire::MutexLock lock(used->mutex);
  drop_channel(*used, socket);
}

absl::Status run_control_call(
    const ControlSocket& socket, std::chrono::milliseconds longest, InterruptCheck interrupt,
    const std::function<grpc::Status(const std::shared_ptr<grpc::Channel>&)>& call) {
  wire::expect_no_mutex_held("a call to the daemon");
  const wire::NotCancelled whole;  // gRPC is not made for that
  State* used = nullptr;
  {
    const wire::MutexLock lock(first_use);
    if (state == nullptr) {
      if (auto room = wire::check_descriptors(); !room.ok()) return room;
      if (auto status = prepare_process(); !status.ok()) return status;
    }
    if (!child_may_call) {
      return wire::make_error(wire::ErrorCode::kForkedClient,
                              "this process was forked where gRPC could not be ended first: in the "
                              "middle of a call, by a signal handler or beside one",
                              "Start workers with spawn or forkserver.");
    }
    used = state;
  }
  State& s = *used;
  const std::uint32_t generation = fork_generation();
  const auto check = [&] {
    auto status = interrupt();
    return generation == fork_generation() ? status : forked_in_call();
  };
  const auto until = Clock::now() + longest;
  BusyRetries retries(socket.directory(), until, check);
  for (;;) {
    auto line = await_call(s, socket, longest, until, retries, check);
    if (!line.ok()) return line.status();
    if (*line == nullptr) continue;
    grpc::Status result;
    {
      const absl::Cleanup end = [&] {  // also where the thread is ended in the middle of it
        if (generation != fork_generation()) {
          new std::shared_ptr<Line>(*line);  // the parent's, kept for ever
          return;
        }
        end_call(s, socket, *std::move(line), result.error_code() == grpc::StatusCode::UNAVAILABLE);
      };
      result = call((*line)->channel);
    }
    const auto status = wire::from_grpc(result);
    if (!wire::is_turned_away(result)) return status;
    if (auto stop = retries.after(status); !stop.ok()) return stop;
  }
}

}  // namespace memlease::internal
