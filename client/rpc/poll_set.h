// gRPC 1.51 keeps its epoll set for the life of the process, also while gRPC is shut down. After a
// fork parent and child would share it, and each would take the other's events: calls that time
// out, and worse. This finds the set, and gives the child one of its own under the same numbers.
// Not thread-safe.
#pragma once

#include <cstdint>

namespace memlease::internal {

class PollSet {
 public:
  // To be called while gRPC is shut down, after its first use. False if there is no such set, or it
  // does not look like gRPC 1.51's: then a child must not use gRPC.
  bool find();
  // In the child, where it is whole. Async-signal-safe. False if the system has no more
  // descriptors.
  bool renew() const;

  // Still what find() has found, or nothing was: this program has not closed it.
  bool whole() const;
  // While gRPC is shut down: makes it whole, where nobody has its numbers. False if it is not.
  bool repair() const { return whole() || make(); }

 private:
  bool make() const;

  int epoll_ = -1;
  int event_ = -1;  // the set's only entry: gRPC's wake-up eventfd
  std::uint32_t events_ = 0;
  std::uint64_t data_ = 0;
};

}  // namespace memlease::internal
