// Newest versions of an array, one after the other. Standard library only, C++17.
#pragma once

#include <memlease/lease.h>
#include <memlease/stop.h>
#include <memlease/stream.h>
#include <memlease/timeout.h>
#include <memlease/version.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace memlease {

namespace internal {
class ArrayHandle;
}

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
  Follower(Follower&&) noexcept;
  Follower& operator=(Follower&&) noexcept;
  ~Follower();

  // Waits for a version above the last one. Throws Timeout, and what Array::read() throws;
  // ProducerDied and WriteAborted once for a version, after which the next one can be waited for.
  // Closed once it is closed or at its end.
  [[nodiscard]] ReadLease next();
  // The same, and nothing where that throws Closed as it is closed or at its end.
  [[nodiscard]] std::optional<ReadLease> next_or_end();
#if defined(__cpp_lib_jthread)
  // The same with a std::stop_token, as Array::read(): a stop throws Interrupted, and the follower
  // may go on.
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
  struct State;
  State& state() const;
  ReadLease next(const internal::Stop* stop);
  std::optional<ReadLease> next_or_end(const internal::Stop* stop);
  Follower(std::shared_ptr<internal::ArrayHandle> handle, const FollowOptions& options);
  std::shared_ptr<State> state_;
};

}  // namespace memlease
