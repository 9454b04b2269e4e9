#include "client/session/peer_windows.h"

#include <sys/mman.h>

#include <algorithm>

#include "client/session/fork_guard.h"

namespace memlease::internal {

PeerWindows::PeerWindows() : fork_generation_(fork_generation()) {}

PeerWindows::~PeerWindows() {
  // A forked child has inherited none of the ranges, and the addresses may be somebody else's.
  if (fork_generation_ != fork_generation()) return;
  std::vector<Range> unused;
  {
    const wire::MutexLock lock(mutex_);
    unused.swap(free_);
  }
  for (const Range& range : unused) munmap(range.data, range.size_bytes);
}

void* PeerWindows::take(std::uint64_t size_bytes) {
  const wire::MutexLock lock(mutex_);
  const auto fitting = std::find_if(free_.begin(), free_.end(), [&](const Range& range) {
    return range.size_bytes == size_bytes;
  });
  if (fitting == free_.end()) return nullptr;
  void* const data = fitting->data;
  free_.erase(fitting);
  return data;
}

void PeerWindows::give_back(void* data, std::uint64_t size_bytes) {
  void* const zeros = mmap(data, size_bytes, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (zeros == MAP_FAILED) return;  // no memory for that: the page stays
  madvise(zeros, size_bytes, MADV_DONTFORK);
  const wire::MutexLock lock(mutex_);
  free_.push_back({data, size_bytes});
}

}  // namespace memlease::internal
