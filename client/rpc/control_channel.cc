#include "client/rpc/control_channel.h"

#include <pthread.h>
#include <sys/socket.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "client/rpc/poll_set.h"
#include "client/socket/connect_socket.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel_posix.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

using Clock = std::chrono::steady_clock;

// gRPC's threads and ours inherit the mask of the thread that makes them: the user's signals are
// not for them.
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

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  unsigned calls = 0;      // in flight
  unsigned quiescing = 0;  // new calls wait, else busy threads could starve a fork
  bool up = false;         // we hold one grpc_init()
  bool stop = false;       // the lingerer must end now
  bool lingering = false;  // the lingerer has not made its decision yet
  std::thread lingerer;
  Clock::time_point last_use;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;  // by directory
};

// Leaked: threads may be in a call while the process exits, and in a forked child the parent's has
// waiters that do not exist.
State* state = nullptr;

// Mutex held, no call in flight.
void shut_down(State& s) {
  if (!s.up) return;
  s.up = false;
  s.channels.clear();
  grpc_shutdown_blocking();
  // A channel holds a reference of its own until it is really destroyed, now and then by a thread
  // of gRPC, which then does the last shutdown: a fork in the middle of that would leave the child
  // with gRPC's mutex locked for ever. Bounded, as somebody else may use this gRPC, too.
  const auto until = Clock::now() + std::chrono::seconds(1);
  while (grpc_is_initialized() != 0 && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void linger(State& s) {
  std::unique_lock lock(s.mutex);
  while (!s.stop) {
    if (s.calls != 0) {
      s.changed.wait(lock);
      continue;
    }
    const auto until = s.last_use + kLinger;
    if (Clock::now() >= until) break;
    s.changed.wait_until(lock, until);
  }
  if (s.calls == 0) shut_down(s);
  s.lingering = false;
}

// Mutex held on entry and exit. Ends with no call in flight, no thread of ours, no gRPC.
void quiesce(State& s, std::unique_lock<std::mutex>& lock) {
  ++s.quiescing;
  for (;;) {
    s.changed.wait(lock, [&] { return s.calls == 0; });
    if (!s.lingerer.joinable()) break;
    s.stop = true;
    s.changed.notify_all();
    std::thread lingerer = std::move(s.lingerer);
    lock.unlock();
    lingerer.join();
    lock.lock();
    s.stop = false;
  }
  shut_down(s);
  --s.quiescing;
  s.changed.notify_all();
}

// ---- Fork.
//
// Handlers before a fork run in the opposite order of their registration, and gRPC registers its
// own at its first init (where GRPC_ENABLE_FORK_SUPPORT is set). So ours are registered twice: when
// this library is loaded, so that no fork slips into another thread's first call; and after gRPC's,
// so that gRPC is down already when its handler looks.

std::mutex first_use;
bool held = false;           // by the thread that forks
bool child_may_call = true;  // false: this is a child that has no epoll set of its own
PollSet poll_set;

void hold_calls() {
  std::unique_lock lock(state->mutex);
  quiesce(*state, lock);
  held = true;
  lock.release();  // over the fork: no call begins until after_fork_in_parent
}

void before_fork() {
  first_use.lock();
  if (state != nullptr && !held) hold_calls();
}

void after_fork_in_parent() {
  if (held) {
    held = false;
    state->mutex.unlock();
  }
  first_use.unlock();
}

void after_fork_in_child() {
  if (held) {
    held = false;
    child_may_call = poll_set.renew();
    state = new State;
  }
  first_use.unlock();
}

[[maybe_unused]] const int kRegistered =
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

void at_exit() {
  std::unique_lock lock(state->mutex);
  quiesce(*state, lock);
}

// first_use held.
void prepare_process() {
  const SignalsBlocked blocked;
  grpc_init();
  grpc_shutdown_blocking();
  poll_set.find();  // if it is not there, renew() says so
  state = new State;
  pthread_atfork(hold_calls, nullptr, nullptr);
  std::atexit(at_exit);  // runs before gRPC's statics are destroyed, which were made earlier
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> begin_call(State& s, const std::string& directory) {
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.quiescing == 0; });
  auto known = s.channels.find(directory);
  if (known == s.channels.end()) {
    auto socket = connect_socket(directory, wire::kControlSocket, SOCK_STREAM);
    if (!socket.ok()) return socket.status();
    const SignalsBlocked blocked;
    if (!s.up) grpc_init();
    s.up = true;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    auto channel =
        grpc::CreateCustomInsecureChannelFromFd("memleased", socket->fd.release(), arguments);
    known = s.channels.emplace(directory, std::move(channel)).first;
  }
  ++s.calls;
  return known->second;
}

void end_call(State& s, const std::string& directory, bool broken) {
  const std::unique_lock lock(s.mutex);
  if (broken) s.channels.erase(directory);
  s.last_use = Clock::now();
  if (--s.calls == 0 && !s.lingering && s.up) {
    if (s.lingerer.joinable()) s.lingerer.join();  // it has left its last critical section
    const SignalsBlocked blocked;
    try {
      s.lingerer = std::thread([&s] { linger(s); });
      s.lingering = true;
    } catch (const std::system_error&) {  // no thread can be made
      shut_down(s);
    }
  }
  s.changed.notify_all();
}

}  // namespace

absl::Status run_control_call(
    const std::string& directory,
    const std::function<grpc::Status(const std::shared_ptr<grpc::Channel>&)>& call) {
  {
    const std::lock_guard lock(first_use);
    if (state == nullptr) prepare_process();
    if (!child_may_call) {
      return wire::make_error(wire::ErrorCode::kForkedClient,
                              "this forked child could not get an epoll set of its own for gRPC",
                              "Start workers with spawn or forkserver.");
    }
  }
  State& s = *state;
  grpc::Status result;
  {
    const auto channel = begin_call(s, directory);
    if (!channel.ok()) return channel.status();
    result = call(*channel);
  }
  end_call(s, directory, result.error_code() == grpc::StatusCode::UNAVAILABLE);
  return wire::from_grpc(result);
}

}  // namespace memlease::internal
