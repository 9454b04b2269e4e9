// Gives back what the core has let go of, where nobody waits for that: gigabytes take long, and
// pages are taken from each mapping that somebody has kept, of which he may have very many. So each
// user's goes by a thread of its own, which ends a second after there was no more, and then gives
// back what the heap has free, too. What cannot go yet it tries again, ever less often while that
// does not change. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
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

  // On whose account there is what everybody's may be behind.
  static constexpr auto kNobodysUid = static_cast<uid_t>(-1);

  // `uid`: on whose account it was. Where there is no thread to be had, it waits until there is.
  void dispose(uid_t uid, std::shared_ptr<Garbage> garbage) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until all that there was of this uid's and of nobody's, or of everybody's, has been
  // tried, and some of what could not go. Not beyond `until`, nor after refuse_waits().
  void await(std::optional<uid_t> uid, std::chrono::steady_clock::time_point until)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void refuse_waits() ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until each of them has been tried once. What could not go is no longer tried.
  void end() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Heap = std::vector<std::shared_ptr<Garbage>>;
  using Queue = std::deque<std::shared_ptr<Garbage>>;
  struct Payer {
    std::uint64_t number;  // an entry that has gone and is made again has another one
    bool has_thread = false;
    Queue fresh;
    Queue kept;  // could not go
    std::uint64_t given = 0;
    std::uint64_t tried = 0;
    bool is_asked = false;    // to look at what is kept
    std::uint64_t looks = 0;  // at some of it
    TimePoint next_look;
    TimePoint::duration pause{0};
    wire::CondVar news;
  };
  // What somebody waits for.
  struct Goal {
    std::uint64_t number = 0;
    std::uint64_t tried = 0;
    std::uint64_t looks = 0;
  };

  void begin_threads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void run(uid_t uid) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for some; false: there is no more.
  bool has_work(Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tries some of what is there. Without the lock meanwhile.
  void round(Payer& payer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says which could not go.
  Heap try_to_go(Heap heap) const;

  const InCore in_core_;
  wire::Mutex mutex_;
  wire::CondVar done_;  // a round, or a thread
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool refuses_waits_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uid_t, Payer> payers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
