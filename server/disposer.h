// Destroys memory that nobody may use any more, where nobody waits for that: gigabytes take long,
// and pages are taken from each mapping that somebody has kept, of which he may have very many. So
// each user's goes by a thread of its own, which ends when there is no more. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "wire/mutex.h"

namespace memlease::server {

class Disposer {
 public:
  Disposer() = default;
  // Blocks until all has been destroyed.
  ~Disposer();
  Disposer(const Disposer&) = delete;
  Disposer& operator=(const Disposer&) = delete;

  // `payer`: whose it was. Destroys it here if there is no thread to be had.
  void dispose(uid_t payer, std::shared_ptr<const void> unused) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until all that was the payer's has been destroyed; false if that takes longer.
  bool await(uid_t payer, std::chrono::milliseconds longest) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Garbage = std::vector<std::shared_ptr<const void>>;
  void run(uid_t payer) ABSL_LOCKS_EXCLUDED(mutex_);

  wire::Mutex mutex_;
  wire::CondVar done_;                                        // a payer has no more
  std::map<uid_t, Garbage> waiting_ ABSL_GUARDED_BY(mutex_);  // of those who have a thread
};

}  // namespace memlease::server
