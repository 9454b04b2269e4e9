// Newest versions of an array, one after the other. Standard library only, C++17.
#pragma once

#include <memlease/lease.h>
#include <memlease/stream.h>
#include <memlease/timeout.h>
#include <memlease/version.h>

#include <cstdint>
#include <memory>

namespace memlease {

namespace internal {
class ArrayHandle;
}

// Of Array::follow(). What was published between two steps is skipped and counted. Movable; used by
// one thread at a time, but for close().
class MEMLEASE_API Follower {
 public:
  Follower(Follower&&) noexcept;
  Follower& operator=(Follower&&) noexcept;
  ~Follower();

  // Waits for a version above the last one. Throws Timeout, and what Array::read() throws;
  // ProducerDied and WriteAborted once for a version, after which the next one can be waited for.
  ReadLease next();
  std::uint64_t last() const noexcept;     // the version handed out last, or where it begins
  std::uint64_t skipped() const noexcept;  // versions never seen, in all
  std::uint64_t seen() const noexcept;     // versions handed out
  // next() throws Closed from now on. By any thread: one that waits in next() ends within a tenth
  // of a second. A repeat does nothing.
  void close() noexcept;

 private:
  friend class Array;
  struct State;
  Follower(std::shared_ptr<internal::ArrayHandle> handle, Timeout timeout, std::uint64_t after,
           Stream stream);
  std::unique_ptr<State> state_;
};

}  // namespace memlease
