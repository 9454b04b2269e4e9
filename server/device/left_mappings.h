// Mappings of the daemon's that it does not need any more, of files that others still have.
//
// To unmap one takes a lock of the file that those who map it take, too, and meanwhile the lock of
// all of the daemon's mappings: who is kept from a processor with the one has the whole daemon
// wait. So they stay until nobody else has the file, without its memory, which has been taken from
// it before. Beyond some thousand one goes all the same. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "server/device/open_file_watch.h"
#include "wire/mutex.h"

namespace memlease::server {

class LeftMappings {
 public:
  static constexpr std::size_t kMost = 4096;  // of 65,530 that a process may have by default

  explicit LeftMappings(std::shared_ptr<OpenFileWatch> watch, std::size_t most = kMost)
      : watch_(std::move(watch)), most_(most) {}
  ~LeftMappings();
  LeftMappings(const LeftMappings&) = delete;
  LeftMappings& operator=(const LeftMappings&) = delete;

  // Once the daemon has closed the file. Unmaps it, now or later, and some others that may go by
  // now, and ends its watch.
  void unmap(std::byte* data, std::uint64_t size_bytes, int watch) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Left {
    std::byte* data;
    std::uint64_t size_bytes;
    int watch;
  };
  bool others_have(const Left& left) const;
  void unmap(const Left& left) const;

  const std::shared_ptr<OpenFileWatch> watch_;
  const std::size_t most_;
  wire::Mutex mutex_;
  std::deque<Left> left_ ABSL_GUARDED_BY(mutex_);  // who has been looked at longest ago comes first
};

}  // namespace memlease::server
