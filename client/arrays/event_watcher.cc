#include "client/arrays/event_watcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "client/arrays/open_array.h"
#include "client/arrays/wait_limit.h"
#include "client/session/fork_guard.h"
#include "wire/descriptor_limit.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"
#include "wire/signals_blocked.h"
#include "wire/standard_descriptors.h"
#include "wire/unique_fd.h"

namespace memlease::internal {
namespace {

// A loop that takes a version and waits again keeps its thread.
constexpr std::chrono::seconds kIdle{1};

// Where there is no descriptor or thread left.
std::string fewer() {
  return "Close followers and arrays that nobody waits for, or " + wire::raise_descriptor_limit() +
         " or that of threads (ulimit -u).";
}

// Each event marks its open file with one of these, by which it knows the descriptor again: the
// signal that F_SETSIG keeps there, which is sent to nobody without O_ASYNC. Other files have 0,
// and events whose marks are the same are made far apart.
constexpr int kMarks = 64;

// The places of those whose session has ended, whatever the reason.
std::vector<std::size_t> without_session(const std::vector<Awaited>& all) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].array->session().look().ok()) found.push_back(i);
  }
  return found;
}

}  // namespace

// Never destroyed: its thread may outlive static destructors. Made when the library is loaded, as
// who forks while another thread initialises it would leave the child without.
EventWatcher& EventWatcher::of_process() {
  static EventWatcher* const the_watcher = new EventWatcher;
  return *the_watcher;
}

namespace {

[[maybe_unused]] const EventWatcher& kMade = EventWatcher::of_process();

}  // namespace

// ---- EventDescriptor, whose calls all come here.

EventDescriptor::~EventDescriptor() {
  if (!is_open()) return;
  EventWatcher::of_process().end(*this);
  if (has_its_number()) ::close(fd_.load());
}

absl::StatusOr<int> EventDescriptor::open(Awaited awaited) {
  return EventWatcher::of_process().open(*this, std::move(awaited));
}

void EventDescriptor::taken(Awaited next) {
  EventWatcher::of_process().watch_again(*this, std::move(next));
}

void EventDescriptor::set_readable() {
  if (is_open()) EventWatcher::of_process().end(*this);
}

bool EventDescriptor::forked() const { return fork_generation_ != fork_generation(); }

// Another file may have the number, which is neither read nor written nor closed then.
bool EventDescriptor::has_its_number() const { return ::fcntl(fd_.load(), F_GETSIG) == mark_; }

EventWatcher::EventWatcher() : fork_generation_(fork_generation()) {
  hold_over_fork(mutex_, wire::HeldOverLocks(3));
  pause_over_fork([] { of_process().pause(); }, [] { of_process().resume(); });
}

absl::StatusOr<int> EventWatcher::open(EventDescriptor& event, Awaited awaited) {
  wire::hold_standard_descriptors();
  wire::UniqueFd made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const int error = errno;
  WatchedEvents parents;  // which end without the lock
  const wire::MutexLock lock(mutex_);
  leave_parents_events(parents);
  const bool is_there = event.is_open() && event.has_its_number();
  if (is_there && !event.forked()) return event.fd_.load();
  // Not before the look: it may have the number that the event's descriptor had.
  const int mark = 1 + static_cast<int>(marks_++ % kMarks);
  if (!made || ::fcntl(made.get(), F_SETSIG, mark) != 0) {
    return wire::errno_error(wire::ErrorCode::kOutOfMemory, "an event descriptor cannot be made",
                             made ? errno : error, fewer());
  }
  // A child's takes the place of its parent's, which is left open for that process.
  int fd = event.fd_.load();
  if (!is_there) {
    fd = made.release();
  } else if (::dup3(made.get(), fd, O_CLOEXEC) < 0) {
    return wire::errno_error(wire::ErrorCode::kOutOfMemory, "an event descriptor cannot be made",
                             errno, fewer());
  }
  event.mark_ = mark;
  event.fork_generation_ = fork_generation();
  event.readable_ = false;
  event.fd_.store(fd);
  if (event.ended_) {
    set_readable(event);
    return fd;
  }
  awaited.newer_than = event.taken_ = std::max(event.taken_, awaited.newer_than);
  if (!watch(event, std::move(awaited))) {
    return wire::make_error(wire::ErrorCode::kOutOfMemory,
                            "the thread that waits for arrays cannot be started", fewer());
  }
  return fd;
}

void EventWatcher::watch_again(EventDescriptor& event, Awaited next) {
  // What is not taken yet is news still.
  const std::uint64_t newest = next.array->known_version();
  crash_point("event.taken");
  Awaited before;  // which ends without the lock
  const wire::MutexLock lock(mutex_);
  if (event.forked() || event.ended_) return;
  event.taken_ = next.newer_than = std::max(event.taken_, next.newer_than);
  if (event.readable_ && newest > event.taken_) return;
  if (leaves_out("wait from what was taken")) next.newer_than = next.array->known_version();
  if (event.readable_) {
    eventfd_t count = 0;
    if (event.has_its_number()) ::eventfd_read(event.fd_.load(), &count);
    event.readable_ = false;
  }
  if (const auto known = watched_.find(&event); known != watched_.end()) {
    std::swap(before, known->second.awaited);
  }
  // Without a thread it is for the user's loop to look again and again.
  if (!watch(event, std::move(next))) set_readable(event);
}

void EventWatcher::end(EventDescriptor& event) {
  Awaited before;  // which ends without the lock
  const wire::MutexLock lock(mutex_);
  if (event.forked()) return;
  event.ended_ = true;
  set_readable(event);
  const auto known = watched_.find(&event);
  if (known == watched_.end()) return;
  std::swap(before, known->second.awaited);
  watched_.erase(known);
  changed_.request();
}

bool EventWatcher::watch(EventDescriptor& event, Awaited awaited) {
  watched_[&event] = {std::move(awaited), ++last_number_};
  if (!leaves_out("tell the thread")) changed_.request();
  if (running_.load() != 0 || pauses_ != 0 || start()) return true;
  watched_.erase(&event);
  return false;
}

bool EventWatcher::start() {
  if (thread_.joinable()) thread_.join();  // which is past its last use of the lock
  const wire::SignalsBlocked blocked;
  try {
    running_.store(1);
    thread_ = std::thread([this] { run(); });
    return true;
  } catch (const std::system_error&) {
    running_.store(0);
    return false;
  }
}

void EventWatcher::set_readable(EventDescriptor& event) {
  if (std::exchange(event.readable_, true) || !event.has_its_number()) return;
  ::eventfd_write(event.fd_.load(), 1);
}

// What the parent waits for is not this process's; its thread is not here either.
void EventWatcher::leave_parents_events(WatchedEvents& parents) {
  if (fork_generation_ == fork_generation()) return;
  fork_generation_ = fork_generation();
  parents.swap(watched_);
  pauses_ = 0;
}

// ---- The thread.

void EventWatcher::run() {
  ::pthread_setname_np(::pthread_self(), "memlease-watch");
  Round round;
  for (bool idle = false; begin_round(round, idle);) {
    idle = round.awaited.empty();
    if (idle) {
      const wire::FutexWait changed{&changed_.word(), 0};
      wire::futex_wait({&changed, 1}, kIdle);
      continue;
    }
    WaitLimit wait_limit(round.awaited.front().array->session(), 0, kForever, kForever,
                         kNoInterrupts, &changed_);
    crash_point("event.wait");
    const auto ready = await_any(round.awaited, wait_limit);
    if (ready.ok()) {
      crash_point("event.seen");
      end_round(round, *ready);
    } else if (wire::code_of(ready.status()) != wire::ErrorCode::kInterrupted) {
      end_round(round, without_session(round.awaited));
    }
  }
}

// False if the thread is to end: a fork is about to come, or it has been `idle` and still is.
bool EventWatcher::begin_round(Round& round, bool idle) {
  round = {};
  const wire::MutexLock lock(mutex_);
  changed_.clear();
  if (pauses_ != 0 || (idle && watched_.empty())) {
    running_.store(0);
    wire::futex_wake_all(running_);
    return false;
  }
  for (const auto& [event, watched] : watched_) {
    round.awaited.push_back(watched.awaited);
    round.events.emplace_back(event, watched.number);
  }
  return true;
}

void EventWatcher::end_round(const Round& round, const std::vector<std::size_t>& ready) {
  std::vector<Awaited> done;  // which end without the lock
  const wire::MutexLock lock(mutex_);
  for (const std::size_t place : ready) {
    const auto& [event, number] = round.events[place];
    const auto known = watched_.find(event);
    if (known == watched_.end()) continue;
    if (known->second.number != number && !leaves_out("tell rounds apart")) continue;
    set_readable(*event);
    done.push_back(std::move(known->second.awaited));
    watched_.erase(known);
  }
}

void EventWatcher::pause() {
  std::thread ended;
  WatchedEvents parents;
  {
    const wire::MutexLock lock(mutex_);
    leave_parents_events(parents);
    ++pauses_;
    changed_.request();
  }
  const wire::FutexWait running{&running_, 1};
  while (running_.load() != 0) wire::futex_wait({&running, 1}, kInterruptInterval);
  {
    const wire::MutexLock lock(mutex_);
    ended.swap(thread_);
  }
  if (ended.joinable()) ended.join();
}

void EventWatcher::resume() {
  const wire::MutexLock lock(mutex_);
  if (--pauses_ != 0 || watched_.empty() || start()) return;
  for (auto& [event, watched] : watched_) set_readable(*event);
}

}  // namespace memlease::internal
