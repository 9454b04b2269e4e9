#include "server/device/lock_dropper.h"

#include <fcntl.h>

#include <system_error>
#include <thread>
#include <utility>

namespace memlease::server {
namespace {

void drop_locks(int fd) {
  struct flock all{};
  all.l_type = F_UNLCK;
  (void)fcntl(fd, F_OFD_SETLK, &all);
}

}  // namespace

LockDropper& LockDropper::get() {
  static LockDropper& the_only = *new LockDropper;
  return the_only;
}

bool LockDropper::begin(const wire::SharedFd& fd) {
  const wire::MutexLock lock(mutex_);
  if (is_at_one_ || fd_ || !has_thread()) return false;
  fd_ = fd;
  changed_.notify_all();
  return true;
}

bool LockDropper::has_thread() {
  if (has_thread_) return true;
  try {
    std::thread([this] { run(); }).detach();
    has_thread_ = true;
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void LockDropper::run() {
  wire::MutexLock lock(mutex_);
  for (;;) {
    while (!fd_) changed_.wait(mutex_);
    wire::SharedFd fd = std::exchange(fd_, {});
    is_at_one_ = true;
    lock.unlock();
    drop_locks(fd.get());
    fd.reset();
    lock.lock();
    is_at_one_ = false;
  }
}

}  // namespace memlease::server
