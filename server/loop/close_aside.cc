#include "server/loop/close_aside.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <future>
#include <iterator>
#include <list>
#include <thread>
#include <utility>

#include "wire/mutex.h"

#ifndef SYS_close_range  // Linux 5.9
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

namespace memlease::server {
namespace {

using Batch = std::list<wire::UniqueFd>;
using CloserClock = std::chrono::steady_clock;

// Closing may take the kernel long, and others' processors (see ClientSocket): then it is done one
// by one, with pauses, unless so many wait that there could be no descriptors in the end.
constexpr std::chrono::milliseconds kLongToClose{10};
constexpr int kRestOfCloser = 8;  // times as long as it took
constexpr std::size_t kManyToClose = 512;

bool close_range(unsigned first, unsigned last, unsigned flags) {
  return first > last || ::syscall(SYS_close_range, first, last, flags) == 0;
}

// Gives the calling thread descriptors of its own: copies of these ones, which are in order. 0 or
// errno.
int keep_copies_of(const Batch& batch) {
  const auto last = static_cast<unsigned>(batch.back().get());
  if (!close_range(last + 1, ~0U, CLOSE_RANGE_UNSHARE)) return errno;
  unsigned next = 0;
  for (const wire::UniqueFd& fd : batch) {
    const auto kept = static_cast<unsigned>(fd.get());
    if (kept > next) close_range(next, kept - 1, 0);
    next = kept + 1;
  }
  return 0;
}

// Of a thread of ours, which is in the kernel until all has been closed that it was the last to
// have.
void await_end(pid_t thread) {
  std::chrono::microseconds pause{50};
  while (::syscall(SYS_tgkill, ::getpid(), thread, 0) == 0) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(10'000));
  }
}

// A thread that ends waits for no socket (socket(7): "When the socket is closed as part of exit(2),
// it always lingers in the background"). So one gets its own copies, and is the last to close them.
// What is left then could not be closed now.
//
// Until it has closed them: the next ones are not to take another processor meanwhile.
void close_all(Batch& batch) {
  batch.sort([](const auto& a, const auto& b) { return a.get() < b.get(); });
  try {
    std::promise<int> has_copies;
    std::promise<void> originals_are_closed;
    pid_t closer = 0;
    std::thread last([&] {
      closer = static_cast<pid_t>(::syscall(SYS_gettid));
      const int error = keep_copies_of(batch);
      has_copies.set_value(error);
      if (error == 0) originals_are_closed.get_future().wait();
    });
    const int error = has_copies.get_future().get();
    if (error == 0 || error == ENOSYS || error == EPERM) batch.clear();
    originals_are_closed.set_value();
    last.join();  // which does not wait for the closing
    await_end(closer);
  } catch (const std::exception&) {
    return;  // no memory, or no thread
  }
}

struct Waiting {
  wire::Mutex mutex;
  Batch fds ABSL_GUARDED_BY(mutex);
  bool has_thread ABSL_GUARDED_BY(mutex) = false;
};

// Lasts as long as the process: its thread may.
Waiting& waiting() {
  static Waiting& the_only = *new Waiting;
  return the_only;
}

void close_waiting() {
  Waiting& all = waiting();
  bool is_slow = false;
  for (bool goes_on = true; goes_on;) {
    Batch batch;
    bool are_many = false;
    {
      const wire::MutexLock lock(all.mutex);
      are_many = all.fds.size() > kManyToClose;
      const auto end = is_slow && !all.fds.empty() ? std::next(all.fds.begin()) : all.fds.end();
      batch.splice(batch.begin(), all.fds, all.fds.begin(), end);
    }
    const auto begin = CloserClock::now();
    if (!batch.empty()) close_all(batch);
    const auto taken = CloserClock::now() - begin;
    is_slow = taken >= kLongToClose;
    if (is_slow && !are_many) std::this_thread::sleep_for(kRestOfCloser * taken);
    const wire::MutexLock lock(all.mutex);
    goes_on = batch.empty() && !all.fds.empty();
    all.fds.splice(all.fds.begin(), batch);  // with the next one that is to be closed
    all.has_thread = goes_on;
  }
}

// False: there is no thread for it now.
bool start_closing() {
  try {
    std::thread(close_waiting).detach();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void close_aside(wire::UniqueFd fd) {
  if (!fd) return;
  Batch one;
  one.push_back(std::move(fd));
  Waiting& all = waiting();
  {
    const wire::MutexLock lock(all.mutex);
    all.fds.splice(all.fds.end(), one);
    if (std::exchange(all.has_thread, true)) return;
  }
  if (start_closing()) return;
  const wire::MutexLock lock(all.mutex);
  all.has_thread = false;
}

}  // namespace memlease::server
