// Files that clients write and the daemon reads. A client may take the memory out of his own again
// (FALLOC_FL_PUNCH_HOLE), and the daemon's next look brings it back, in the daemon's control group:
// so what is missing is not free. Thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "wire/mutex.h"

namespace memlease::server {

class ReadPages {
 public:
  // `fd` stays open until remove().
  void add(int fd, std::uint64_t size_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void remove(int fd) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of all, whether it is there or not.
  std::uint64_t size_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What is not there just now. Looks at each file.
  std::uint64_t missing_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable wire::Mutex mutex_;
  std::uint64_t size_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int, std::uint64_t> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
