// A count of this process that changes when something has happened that a wait may have to end for,
// or look at its own, though no page says it: a thread has closed what others wait by, or deferred
// the release of a GPU's slot, or a connection to the daemon has ended. A futex. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "wire/futex.h"

namespace memlease::internal {

class WaitNews {
 public:
  // Take it, look whether the wait is to end, then sleep on since().
  std::uint32_t count() const { return count_.load(); }
  wire::FutexWait since(std::uint32_t count) const { return {&count_, count}; }
  // Once that has happened, and can be seen.
  void tell();

  // While it lives, this thread may sleep on the count.
  class Sleeper {
   public:
    explicit Sleeper(WaitNews& news) : news_(news) { news_.sleepers_.fetch_add(1); }
    ~Sleeper() { news_.sleepers_.fetch_sub(1); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    WaitNews& news_;
  };

 private:
  wire::HalfWord count_{0};
  wire::HalfWord sleepers_{0};
};

// Of the process. A forked child has its own, in which a thread of the parent's may seem to sleep:
// then it wakes nobody, now and then.
inline constinit WaitNews wait_news;

}  // namespace memlease::internal
