// The one thread of a process that waits for arrays on behalf of EventDescriptors. There is none
// while no event waits, but for a second, and none over a fork: the thread ends before it and
// begins again in the parent. A child's events are opened again there, and wait for nothing until
// then. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/arrays/await_any.h"
#include "client/arrays/event_descriptor.h"
#include "wire/futex.h"
#include "wire/mutex.h"

namespace memlease::internal {

class EventWatcher {
 public:
  static EventWatcher& of_process();

  // EventDescriptor's calls.
  absl::StatusOr<int> open(EventDescriptor& event, Awaited awaited);
  void watch_again(EventDescriptor& event, Awaited next);
  void end(EventDescriptor& event);

 private:
  struct Watched {
    Awaited awaited;
    std::uint64_t number = 0;  // unlike that of all others
  };
  using WatchedEvents = std::map<EventDescriptor*, Watched>;
  // One round of the thread: what it waits for, in two lists that go together.
  struct Round {
    std::vector<Awaited> awaited;
    std::vector<std::pair<EventDescriptor*, std::uint64_t>> events;
  };

  EventWatcher();
  void run();
  bool begin_round(Round& round, bool idle) ABSL_LOCKS_EXCLUDED(mutex_);
  void end_round(const Round& round, const std::vector<std::size_t>& ready)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void pause() ABSL_LOCKS_EXCLUDED(mutex_);
  void resume() ABSL_LOCKS_EXCLUDED(mutex_);
  // False if there is no thread to be had.
  bool watch(EventDescriptor& event, Awaited awaited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void set_readable(EventDescriptor& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void leave_parents_events(WatchedEvents& parents) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The thread is to look at the list again. A child has its own, as nobody else has.
  Stop changed_;
  // 1 while the thread may take the mutex; a futex.
  wire::HalfWord running_{0};

  wire::Mutex mutex_{wire::HeldOverLocks(3)};
  WatchedEvents watched_ ABSL_GUARDED_BY(mutex_);
  unsigned marks_ ABSL_GUARDED_BY(mutex_) = 0;  // how many were given
  std::uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint32_t fork_generation_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t pauses_ ABSL_GUARDED_BY(mutex_) = 0;  // forks under way
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
