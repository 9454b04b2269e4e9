// Newest versions of an array, one after the other. Standard library only, C++17.
#pragma once

#include <memlease/lease.h>
#include <memlease/stop.h>
#include <memlease/stream.h>
#include <memlease/timeout.h>
#include <memlease/version.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

namespace memlease {

namespace internal {
class ArrayHandle;
struct ForBindings;
}  // namespace internal

struct FollowOptions {
  Timeout timeout = {};     // of each step; default: no end
  std::uint64_t after = 0;  // begin with a version above this one; 0 = with the current one
  Stream stream = {};       // as in ReadOptions, for each lease
  // The end comes once no process is the array's writer (Array::has_writer) and what it has
  // published was handed out; or once the array is withdrawn, as arrays of lifetime Session are
  // when their creator ends. An array that has no version yet is waited for: its writer is yet to
  // come.
  bool until_writer_gone = false;
};

// Of Array::follow(). What was published between two steps is skipped and counted. Movable; used by
// one thread at a time, except for close().
class MEMLEASE_API Follower {
 public:
  // The end of a loop over a follower.
  struct End {};
  // The steps of a loop. It has the lease of its step, which ends before the next step waits, and
  // with the loop, unless it is moved out. Of one pass: another one goes on where it has stopped.
  // Valid while the follower is, and is not moved.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = ReadLease;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(Follower& follower) : follower_(&follower), lease_(follower.next_or_end()) {}
    ReadLease& operator*() const { return *lease_; }
    ReadLease* operator->() const { return &*lease_; }
    Iterator& operator++() {
      lease_.reset();
      lease_ = follower_->next_or_end();
      return *this;
    }
    void operator++(int) { ++*this; }

    friend bool operator==(const Iterator& it, End /*end*/) { return !it.lease_.has_value(); }
    friend bool operator==(End end, const Iterator& it) { return it == end; }
    friend bool operator!=(const Iterator& it, End end) { return !(it == end); }
    friend bool operator!=(End end, const Iterator& it) { return !(it == end); }

   private:
    Follower* follower_;
    mutable std::optional<ReadLease> lease_;  // as a pointer's target: no part of its value
  };

  Follower(Follower&&) noexcept;
  Follower& operator=(Follower&&) noexcept;
  ~Follower();

  // Waits for a version above the last one. Throws Timeout, and what Array::read() throws;
  // ProducerDied and WriteAborted once for a version, after which the next one can be waited for.
  // Closed once it is closed or at its end.
  [[nodiscard]] ReadLease next();
  // The same, and nothing where that throws Closed as it is closed or at its end.
  [[nodiscard]] std::optional<ReadLease> next_or_end();
  // for (ReadLease& lease : array.follow()): each step is next_or_end(), and throws what that does.
  [[nodiscard]] Iterator begin() { return Iterator(*this); }
  [[nodiscard]] End end() const noexcept { return {}; }
#if defined(__cpp_lib_jthread)
  // next() and next_or_end() with a std::stop_token, as Array::read(): a stop throws Interrupted,
  // and the follower may go on.
  [[nodiscard]] ReadLease next(internal::StopToken auto stop) {
    return internal::until_stopped(std::move(stop),
                                   [&](const internal::Stop& by) { return next(&by); });
  }
  [[nodiscard]] std::optional<ReadLease> next_or_end(internal::StopToken auto stop) {
    return internal::until_stopped(std::move(stop),
                                   [&](const internal::Stop& by) { return next_or_end(&by); });
  }
#endif
  // As next() if there is a version now, without waiting; else nothing.
  [[nodiscard]] std::optional<ReadLease> try_next();
  // A descriptor for select, epoll and the loops of GUIs: readable while next() would not wait, as
  // there is a version above last(), or as it would throw. It is the follower's own, as long as
  // that lives: wait for it, and do not read or close it. May be readable for nothing: try_next()
  // is for that. From the first call on, which may call the daemon, publishing wakes this process.
  // Throws what next() throws before it waits, and OutOfMemory if there are no descriptors left. A
  // forked child asks again.
  int event_fd();
  std::uint64_t last() const noexcept;     // the version handed out last, or where it begins
  std::uint64_t skipped() const noexcept;  // versions never seen, in all
  std::uint64_t seen() const noexcept;     // versions handed out
  bool closed() const noexcept;            // or at its end. By any thread
  // next() throws Closed from now on. By any thread: one that waits in next() ends within a tenth
  // of a second. A repeat does nothing.
  void close() noexcept;

 private:
  friend class Array;
  friend class Awaited;
  friend struct internal::ForBindings;
  struct State;
  State& state() const;
  ReadLease next(const internal::Stop* stop);
  std::optional<ReadLease> next_or_end(const internal::Stop* stop);
  std::optional<ReadLease> next_within(std::chrono::nanoseconds timeout,
                                       const internal::Stop* stop);
  Follower(std::shared_ptr<internal::ArrayHandle> handle, const FollowOptions& options);
  std::shared_ptr<State> state_;
};

}  // namespace memlease
