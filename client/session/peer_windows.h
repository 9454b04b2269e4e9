// Address ranges for the pages of other processes, of one session. A range that has shown such a
// page is not unmapped while the session lives: a thread may have looked up a row there and read it
// late, after another one has let the page go. It then reads zeros, or another row, and finds that
// the board's writer word has changed; but it does not fault. So the ranges are as many as the
// pages that were ever needed at once. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/session/file_source.h"
#include "wire/mutex.h"

namespace memlease::internal {

class PeerWindows {
 public:
  PeerWindows();
  // Unmaps all: nobody may read there any more.
  ~PeerWindows();
  PeerWindows(const PeerWindows&) = delete;
  PeerWindows& operator=(const PeerWindows&) = delete;

  // Such a page: of session pages, and not writable.
  static bool shows(const SharedFile& file) {
    return file.kind == wire::FileKind::kSessionPage && !file.writable;
  }

  // A free range of that size, to be mapped over; nullptr: map wherever there is room.
  void* take(std::uint64_t size_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // The page goes; its range reads as zeros until it is taken again.
  void give_back(void* data, std::uint64_t size_bytes) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Range {
    void* data;
    std::uint64_t size_bytes;
  };
  const std::uint32_t fork_generation_;
  wire::Mutex mutex_;
  std::vector<Range> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
