// Gives back what the core has let go of, where nobody waits for that: gigabytes take long, and
// pages are taken from each mapping that somebody has kept, of which he may have very many. So each
// user's goes by a thread of its own, which ends when there is no more. What cannot go yet it tries
// again, ever less often while that does not change. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "server/core/garbage.h"
#include "wire/mutex.h"

namespace memlease::server {

class Disposer {
 public:
  // Calls it under the core's lock.
  using InCore = std::function<void(const std::function<void()>&)>;
  explicit Disposer(InCore in_core) : in_core_(std::move(in_core)) {}
  ~Disposer() { end(); }
  Disposer(const Disposer&) = delete;
  Disposer& operator=(const Disposer&) = delete;

  // Whoever waits for what is his waits for what is on this account, too.
  static constexpr auto kNobodysUid = static_cast<uid_t>(-1);

  // Blocks until each of them has been tried once. What could not go is no longer tried.
  void end() ABSL_LOCKS_EXCLUDED(mutex_);
  // `uid`: on whose account it was. Tries it here if there is no thread to be had.
  void dispose(uid_t uid, std::shared_ptr<Garbage> garbage) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until all that was there of this uid's, or of everybody's, has been tried; of what could
  // not go, some. False if that takes longer.
  bool await(std::optional<uid_t> uid, std::chrono::steady_clock::time_point until)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Heap = std::vector<std::shared_ptr<Garbage>>;
  struct Payer {
    bool has_thread = false;
    Heap fresh;
    std::deque<std::shared_ptr<Garbage>> kept;  // could not go
    bool is_asked = false;                      // to try what is kept
    std::uint64_t rounds_begun = 0;
    std::uint64_t rounds_done = 0;
    TimePoint next_look;
    std::chrono::milliseconds pause{0};
    wire::CondVar news;
  };

  // Begins one where there is none, if there is one to be had.
  bool has_thread(uid_t uid, Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void run(uid_t uid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for some; false: there is no more.
  bool has_work(Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tries what is there. Without the lock meanwhile.
  void round(Payer& payer, wire::MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const InCore in_core_;
  wire::Mutex mutex_;
  wire::CondVar done_;  // a round, or a thread
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uid_t, Payer> payers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
