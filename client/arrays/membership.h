// How this process has one array open: by how many handles that nobody has closed, after how many
// answers of the daemon, and which thread subscribes or leaves just now. Such a thread is alone,
// but holds no lock. Calls nobody. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "client/session/interrupt.h"
#include "wire/mutex.h"

namespace memlease::internal {

// For all arrays of an owner: nothing long is done under it, and hardly ever does a thread wait.
struct MembershipLock {
  wire::Mutex mutex;
  wire::CondVar idle;  // a thread is not alone with its array any more
};

class Membership {
 public:
  // The first handle comes with the first answer. `lock` outlives this. In what follows `name` is
  // the array's, for messages.
  explicit Membership(MembershipLock& lock) : lock_(lock) {}

  // Nobody has a handle that is open.
  bool closed() const { return closed_.load(); }
  // No member any more: its rows may be another array's by now. What was closed was that before.
  bool left() const { return left_.load(); }
  // Neither, as far as one may see without ordering.
  bool open_at_once() const {
    return !closed_.load(std::memory_order_relaxed) && !left_.load(std::memory_order_relaxed);
  }
  // kClosed, for a handle.
  static absl::Status handle_closed(const std::string& name);

  // One more answer has been merged into this array, for one more handle; it is open again if it
  // was closed but not left yet. False if it has been left. Waits for a thread that leaves it,
  // unless that is this one, which has been interrupted: then it is as good as left.
  bool reopen();
  // One more handle without an answer. False if it is closed or left.
  bool add_handle();
  // One less, which has died, not been closed.
  void drop_handle();
  // One less, which has been closed. True if it was the last one: the array is closed.
  bool close_handle();
  void close() { closed_.store(true); }

  // After OK this thread is alone until end(). Waits for one that is, and meanwhile asks
  // `interrupt`, without the lock: fails with what that says. kBusy: this thread itself subscribes
  // or leaves, and has been interrupted.
  absl::Status begin_subscribing(const std::string& name, InterruptCheck interrupt);
  // How many answers are to be given back: this thread is alone until end(). Nothing where another
  // thread subscribes, which looks itself afterwards, or the array has been left. Waits for one
  // that leaves.
  std::optional<std::uint32_t> begin_leaving();
  // In begin_leaving(): it has been done.
  void note_left() { left_.store(true); }
  void end();
  // Nobody will be a member by this: the answer is its caller's to give back.
  void never_joined() { left_.store(true); }
  // Where no other thread is: the answers that have not been given back.
  std::uint32_t opens();

 private:
  MembershipLock& lock_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> left_{false};

  enum class Busy : std::uint8_t { kIdle, kSubscribing, kLeaving };
  Busy busy_ ABSL_GUARDED_BY(lock_.mutex) = Busy::kIdle;
  std::thread::id alone_ ABSL_GUARDED_BY(lock_.mutex);  // that thread, unless kIdle
  std::uint32_t opens_ ABSL_GUARDED_BY(lock_.mutex) = 1;
  std::uint32_t handles_ ABSL_GUARDED_BY(lock_.mutex) = 1;
};

}  // namespace memlease::internal
