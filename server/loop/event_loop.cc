#include "server/loop/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/loop/thread_time.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

constexpr std::uint64_t kWakeKey = 0;  // keys of add() begin at 2
constexpr std::uint64_t kTimerKey = 1;
constexpr int kEventsPerWait = 1024;
// After so long the kernel is asked who else is ready.
constexpr std::chrono::milliseconds kTurns{1};
// As long as a ClientSocket takes where messages are slow. What a flood sends at once is not.
constexpr std::chrono::milliseconds kLong{1};
constexpr int kRest = 8;
constexpr std::chrono::minutes kRemembered{10};
constexpr std::chrono::milliseconds kLongerRest{100};  // where the kernel has no room to watch

absl::Status failed(std::string_view call) {
  return wire::errno_error(wire::ErrorCode::kInternal, fmt::format("event loop: {}", call), errno,
                           "The daemon needs free file descriptors (see ulimit -n) and kernel "
                           "memory.");
}

bool watch(int epoll, int fd, int operation, std::uint32_t events, std::uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return ::epoll_ctl(epoll, operation, fd, &event) == 0;
}

// Resets the eventfd or timerfd.
void consume(int fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto size = ::read(fd, &count, sizeof(count));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::create(const Rests& rests) {
  wire::UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return failed("epoll_create1");
  wire::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return failed("eventfd");
  wire::UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return failed("timerfd_create");
  if (!watch(epoll.get(), wake.get(), EPOLL_CTL_ADD, EPOLLIN, kWakeKey) ||
      !watch(epoll.get(), timer.get(), EPOLL_CTL_ADD, EPOLLIN, kTimerKey)) {
    return failed("epoll_ctl");
  }
  return std::unique_ptr<EventLoop>(
      new EventLoop(rests, std::move(epoll), std::move(wake), std::move(timer)));
}

EventLoop::EventLoop(const Rests& rests, wire::UniqueFd epoll, wire::UniqueFd wake,
                     wire::UniqueFd timer)
    : rests_(rests),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      timer_(std::move(timer)),
      last_key_(kTimerKey) {}

EventLoop::~EventLoop() = default;

absl::Status EventLoop::add(int fd, std::uint32_t events, Callback callback,
                            std::optional<std::uint32_t> user) {
  const Key key = ++last_key_;
  if (!watch(epoll_.get(), fd, EPOLL_CTL_ADD, events, key)) return failed("epoll_ctl");
  keys_[fd] = key;
  watched_[key] = std::make_shared<Watched>(fd, std::move(callback), user, events);
  return absl::OkStatus();
}

void EventLoop::modify(int fd, std::uint32_t events) {
  const Key key = keys_.at(fd);
  Watched& watched = *watched_.at(key);
  watched.events = events;
  if (!watched.rests) watch(epoll_.get(), fd, EPOLL_CTL_MOD, events, key);
}

void EventLoop::remove(int fd) {
  const auto found = keys_.find(fd);
  if (found == keys_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.erase(found->second);
  keys_.erase(found);
}

EventLoop::TimerId EventLoop::after(std::chrono::milliseconds delay, Task task,
                                    std::optional<std::uint32_t> user) {
  const TimerId timer{Clock::now() + delay, ++last_key_};
  timers_.emplace(timer, Timer{std::move(task), user});
  arm_timer();
  return timer;
}

// While there are others the timerfd may stay armed for one that is gone: a wake-up for nothing
// costs less than a call to the kernel each time.
void EventLoop::cancel(TimerId timer) {
  due_.erase(timer.number);
  timers_.erase(timer);
  if (timers_.empty()) arm_timer();
}

void EventLoop::post(Task task) {
  bool first = false;
  {
    const wire::MutexLock lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (first) wake();
}

void EventLoop::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto size = ::write(wake_.get(), &one, sizeof(one));
}

void EventLoop::stop() {
  post([this] { running_ = false; });
}

void EventLoop::run() {
  std::vector<epoll_event> events(kEventsPerWait);
  running_ = true;
  while (running_) {
    const int wait = ready_.empty() ? -1 : 0;
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerWait, wait);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events.at(static_cast<std::size_t>(i));
      sort_in(event.data.u64, event.events);
    }
    take_turns();
  }
}

// What is nobody's goes first.
void EventLoop::sort_in(Key key, std::uint32_t events) {
  if (key == kWakeKey) return run_posted();
  if (key == kTimerKey) return run_due_timers();
  const auto found = watched_.find(key);
  if (found == watched_.end()) return;
  const auto watched = found->second;  // the callback may remove itself
  if (!watched->user) return watched->callback(events);
  if (watched->seen == 0) ready_[*watched->user].push_back(key);
  watched->seen |= events;
}

void EventLoop::take_turns() {
  const auto end = Clock::now() + kTurns;
  while (!ready_.empty()) {
    for (auto next = ready_.begin(); next != ready_.end();) {
      const std::uint32_t user = next->first;
      take_turn(user);
      next = ready_.upper_bound(user);
    }
    if (Clock::now() >= end) return;
  }
}

void EventLoop::take_turn(std::uint32_t user) {
  const auto turn = ready_.find(user);
  const Key key = turn->second.front();
  turn->second.pop_front();
  if (turn->second.empty()) ready_.erase(turn);
  if (const auto resting = resting_.find(user); resting != resting_.end()) {
    return rest(key, resting->second);
  }
  run_for(user, [&](bool /*rests*/) { call(key); });
}

void EventLoop::run_for(std::optional<std::uint32_t> user,
                        absl::FunctionRef<void(bool rests)> task) {
  SocketTime::take();
  task(rests(user));
  const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(SocketTime::take());
  if (user && taken >= kLong && !rests(user)) begin_rest(*user, rest_after(*user, taken));
}

// Who can make one call of the kernel's take a second would still have a ninth of the loop's time.
std::chrono::milliseconds EventLoop::rest_after(std::uint32_t user,
                                                std::chrono::milliseconds taken) {
  const auto rest = kRest * taken;
  if (taken < rests_.very_long) return rest;
  const auto now = Clock::now();
  std::erase_if(slow_, [&](const auto& one) { return now - one.second.last > kRemembered; });
  Slowness& slow = slow_[user];
  slow.last = now;
  auto longer = rest;
  for (std::uint32_t i = 0; i < slow.times && longer < rests_.longest; ++i) longer *= kRest;
  ++slow.times;
  return std::max(rest, std::min(longer, rests_.longest));
}

void EventLoop::rest(Key key, std::vector<Key>& resting) {
  resting.push_back(key);
  const auto found = watched_.find(key);
  if (found == watched_.end()) return;  // a timer's
  Watched& watched = *found->second;
  watched.seen = 0;
  watched.rests = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched.fd, nullptr);
}

void EventLoop::call(Key key) {
  if (const auto due = due_.extract(key)) return due.mapped()();
  const auto found = watched_.find(key);
  if (found == watched_.end()) return;
  const auto watched = found->second;  // the callback may remove itself
  watched->callback(std::exchange(watched->seen, 0));
}

void EventLoop::begin_rest(std::uint32_t user, std::chrono::milliseconds time) {
  resting_[user];
  after(time, [this, user] { end_rest(user); });
}

void EventLoop::end_rest(std::uint32_t user) {
  std::vector<Key> unwatched;
  const auto rested = resting_.extract(user);
  for (const Key key : rested.mapped()) {
    if (due_.contains(key)) ready_[user].push_back(key);
    const auto found = watched_.find(key);
    if (found == watched_.end()) continue;
    Watched& watched = *found->second;
    watched.rests = !watch(epoll_.get(), watched.fd, EPOLL_CTL_ADD, watched.events, key);
    if (watched.rests) unwatched.push_back(key);
  }
  if (unwatched.empty()) return;
  begin_rest(user, kLongerRest);
  resting_.at(user) = std::move(unwatched);
}

void EventLoop::run_posted() {
  consume(wake_.get());
  {
    const wire::MutexLock lock(mutex_);
    std::ranges::move(posted_, std::back_inserter(tasks_));
    posted_.clear();
  }
  for (const auto end = Clock::now() + kTurns; !tasks_.empty();) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    if (Clock::now() >= end) break;
  }
  if (!tasks_.empty()) wake();
}

void EventLoop::run_due_timers() {
  consume(timer_.get());
  armed_ = {};
  // Timers that a task sets again wait for the next round, so that none can hold the loop.
  const TimerId last_due{Clock::now(), last_key_};
  while (!timers_.empty() && timers_.begin()->first <= last_due) {
    const auto timer = timers_.extract(timers_.begin());
    Timer& due = timer.mapped();
    if (!due.user) {
      due.task();
      continue;
    }
    const Key key = timer.key().number;
    due_.emplace(key, std::move(due.task));
    ready_[*due.user].push_back(key);
  }
  arm_timer();
}

void EventLoop::arm_timer() {
  const auto first = timers_.empty() ? Clock::time_point{} : timers_.begin()->first.deadline;
  const bool is_armed = armed_ != Clock::time_point{};
  if (timers_.empty() ? !is_armed : is_armed && armed_ <= first) return;
  armed_ = first;
  const auto nanoseconds = first.time_since_epoch().count();
  itimerspec spec{};  // all zero disarms
  spec.it_value.tv_sec = nanoseconds / 1'000'000'000;
  spec.it_value.tv_nsec = nanoseconds % 1'000'000'000;
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace memlease::server
