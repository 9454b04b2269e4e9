// Memory of others that a GPU may still be reading, and what keeps it there. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "client/ordering/importer.h"
#include "client/session/fork_guard.h"
#include "wire/mutex.h"

namespace memlease::internal {

class KeptSources {
 public:
  KeptSources() = default;
  // What is still being read stays until the process exits.
  ~KeptSources();
  KeptSources(const KeptSources&) = delete;
  KeptSources& operator=(const KeptSources&) = delete;

  // Until the mark is complete, and let_go() sees it.
  void keep(std::shared_ptr<StreamMark> read, std::shared_ptr<const void> owner);
  // Blocks on nothing of its own; owners die here, on the calling thread, and may run any code of
  // theirs. So not to be called under a lock.
  void let_go() {
    if (any_.load(std::memory_order_relaxed)) let_go_of_some();
  }

 private:
  struct Kept {
    std::shared_ptr<StreamMark> read;
    std::shared_ptr<const void> owner;
  };
  void let_go_of_some();

  const std::uint32_t fork_generation_ = fork_generation();
  std::atomic<bool> any_{false};
  wire::Mutex mutex_;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
