// The daemon's one loop: descriptors, one-shot timers, and tasks of other threads, all called on
// the thread that is in run(). It wakes for little else: without timers, an idle daemon sleeps.
//
// post() and stop() are thread-safe. Everything else belongs to the loop's thread, or to any thread
// while the loop does not run. Not async-signal-safe: take signals by signalfd.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/mutex.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using Task = std::function<void()>;
  using Callback = std::function<void(std::uint32_t events)>;  // as epoll_wait(2) reports them
  // Unique within one loop, never reused; ordered as the timers fire. TimerId{} is no timer.
  struct TimerId {
    Clock::time_point deadline;
    std::uint64_t number = 0;
    friend auto operator<=>(const TimerId&, const TimerId&) = default;
  };

  // Of a user for whose callback the kernel takes long (SocketTime).
  struct Rests {
    std::chrono::milliseconds very_long{100};
    std::chrono::milliseconds longest{60'000};
  };
  static absl::StatusOr<std::unique_ptr<EventLoop>> create() { return create(Rests()); }
  static absl::StatusOr<std::unique_ptr<EventLoop>> create(const Rests& rests);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // `events` as in epoll_ctl(2). The descriptor stays the caller's, who removes it before closing
  // it. `user`: whose socket it is. Users take turns, so that nobody waits for how many another has
  // that are ready. Where the kernel takes long for a callback (SocketTime), all that is its user's
  // rests for eight times as long, so that he has a ninth of the loop's time; and where it takes
  // very long again and again, for eight times as long as the last time, up to a minute.
  absl::Status add(int fd, std::uint32_t events, Callback callback,
                   std::optional<std::uint32_t> user = {});
  // Of a descriptor that was added.
  void modify(int fd, std::uint32_t events);
  // From here on the callback is not called, even for an event that has already been fetched. It
  // may be called from the callback itself. No effect on a descriptor that was not added.
  void remove(int fd);

  // `user`: as of add(). Once it is due it waits for its turn, too.
  TimerId after(std::chrono::milliseconds delay, Task task, std::optional<std::uint32_t> user = {});
  // Calls it at once, whether it is the user's turn or not: he rests afterwards as if it were.
  // If he `rests` already, what he is told by his sockets takes the kernel long: it is left out
  // where it can be.
  void run_for(std::optional<std::uint32_t> user, absl::FunctionRef<void(bool rests)> task);
  bool rests(std::optional<std::uint32_t> user) const { return user && resting_.contains(*user); }
  // No effect on a timer that has fired, or on TimerId{}.
  void cancel(TimerId timer);

  // Tasks run in the order in which they were posted; never within post() itself. After a
  // millisecond of them others have their turns.
  void post(Task task);

  // Until stop(). A stop() before run() counts.
  void run();
  void stop();

 private:
  // Unique per add() and after(), so that a late event never meets a reused number.
  using Key = std::uint64_t;
  struct Watched {
    const int fd;
    const Callback callback;
    const std::optional<std::uint32_t> user;
    std::uint32_t events;
    std::uint32_t seen = 0;  // what has come of them and waits for its turn
    bool rests = false;      // the kernel does not watch it
  };
  struct Timer {
    Task task;
    std::optional<std::uint32_t> user;
  };

  struct Slowness {
    std::uint32_t times = 0;  // that it took very long
    Clock::time_point last;
  };

  EventLoop(const Rests& rests, wire::UniqueFd epoll, wire::UniqueFd wake, wire::UniqueFd timer);
  void sort_in(Key key, std::uint32_t events);
  void take_turns();
  void take_turn(std::uint32_t user);
  void rest(Key key, std::vector<Key>& resting);
  void call(Key key);
  std::chrono::milliseconds rest_after(std::uint32_t user, std::chrono::milliseconds taken);
  void begin_rest(std::uint32_t user, std::chrono::milliseconds time);
  void end_rest(std::uint32_t user);
  void wake();
  void run_posted();
  void run_due_timers();
  void arm_timer();

  const Rests rests_;
  const wire::UniqueFd epoll_;
  const wire::UniqueFd wake_;  // eventfd: something was posted
  // timerfd: armed for the first of timers_ or earlier, if there is one
  const wire::UniqueFd timer_;

  bool running_ = false;
  Key last_key_ = 0;
  std::unordered_map<int, Key> keys_;
  std::unordered_map<Key, std::shared_ptr<Watched>> watched_;
  std::map<std::uint32_t, std::deque<Key>> ready_;               // by their users; of each one
  std::unordered_map<std::uint32_t, std::vector<Key>> resting_;  // likewise
  std::unordered_map<std::uint32_t, Slowness> slow_;             // likewise
  std::map<TimerId, Timer> timers_;
  std::unordered_map<Key, Task> due_;  // of users, by the numbers of their timers
  std::deque<Task> tasks_;             // that were posted
  Clock::time_point armed_;            // what timer_ is armed for; epoch: not armed

  wire::Mutex mutex_;
  std::vector<Task> posted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
