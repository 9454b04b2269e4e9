// A descriptor for other loops than ours (epoll, Qt, asyncio): readable while a read of an array,
// above the last version that was taken, would not wait. One for each handle or follower that was
// asked for it; the others cost one load a read.
//
// It is an eventfd that the process's EventWatcher writes to, which waits for the array in the
// meantime: as long as the descriptor is readable nobody does, and publishing wakes nobody.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/arrays/await_any.h"

namespace memlease::internal {

// Its calls are in event_watcher.cc.
class EventDescriptor {
 public:
  EventDescriptor() = default;
  // Closes the descriptor.
  ~EventDescriptor();
  EventDescriptor(const EventDescriptor&) = delete;
  EventDescriptor& operator=(const EventDescriptor&) = delete;

  // It has been opened, by this process or one that forked it.
  bool is_open() const { return fd() >= 0; }
  int fd() const { return fd_.load(std::memory_order_relaxed); }
  // The descriptor, which this keeps. At the first call in a process it is made, and readable once
  // `awaited` is ready; and again where the program has closed it. kOutOfMemory if there is no
  // descriptor or no thread to be had.
  absl::StatusOr<int> open(Awaited awaited);
  // For one that is open: a version has been taken, and it is readable again once `next` is ready.
  void taken(Awaited next);
  // For good: what it belongs to has been closed.
  void set_readable();

 private:
  friend class EventWatcher;    // whose lock guards what follows
  bool forked() const;          // opened before a fork, and this is the child
  bool has_its_number() const;  // else the program has closed the descriptor

  std::atomic<int> fd_{-1};
  int mark_ = 0;  // of the open file
  std::uint32_t fork_generation_ = 0;
  std::uint64_t taken_ = 0;
  bool readable_ = false;
  bool ended_ = false;
};

}  // namespace memlease::internal
