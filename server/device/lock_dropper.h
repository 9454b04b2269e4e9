// Drops locks that clients have put on the daemon's open files.
#pragma once

#include "wire/mutex.h"
#include "wire/shared_fd.h"

namespace memlease::server {

// Locks of bytes (F_OFD_SETLK) belong to the open file: those that somebody has put there who has
// it, too, would be there for as long as the daemon has it, and be gone through at each close().
// They are dropped by a thread that nobody waits for: that waits itself for whoever reads the list
// of all locks of files (/proc/locks), which may be for as long as he likes. One at a time.
// Thread-safe.
class LockDropper {
 public:
  // Lasts as long as the process: its thread may.
  static LockDropper& get();
  // Keeps the descriptor meanwhile. False: it is at another one, or there is no thread.
  bool begin(const wire::SharedFd& fd);

 private:
  LockDropper() = default;
  // Made once: also to make one may wait for what others do.
  bool has_thread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  [[noreturn]] void run();

  wire::Mutex mutex_;
  wire::CondVar changed_;
  bool has_thread_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_at_one_ ABSL_GUARDED_BY(mutex_) = false;
  wire::SharedFd fd_ ABSL_GUARDED_BY(mutex_);  // the next one
};

}  // namespace memlease::server
