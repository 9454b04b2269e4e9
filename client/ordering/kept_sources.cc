#include "client/ordering/kept_sources.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <new>
#include <utility>

namespace memlease::internal {

KeptSources::~KeptSources() {
  let_go();
  // On purpose never destroyed.
  using Rest = std::vector<Kept>;
  alignas(Rest) std::byte rest[sizeof(Rest)];
  new (rest) Rest(std::move(kept_));
}

void KeptSources::keep(std::shared_ptr<StreamMark> read, std::shared_ptr<const void> owner) {
  const wire::MutexLock lock(mutex_);
  kept_.push_back({std::move(read), std::move(owner)});
  any_.store(true, std::memory_order_relaxed);
}

// After an error of the GPU nothing reads any more. In a forked child it is the parent's matter.
void KeptSources::let_go_of_some() {
  if (fork_generation() != fork_generation_) return;
  std::vector<Kept> looked_at;
  {
    const wire::MutexLock lock(mutex_);
    looked_at.swap(kept_);
  }
  const auto first_done =
      std::stable_partition(looked_at.begin(), looked_at.end(), [](const Kept& it) {
        const auto complete = it.read->complete();
        return complete.ok() && !*complete;
      });
  const wire::MutexLock lock(mutex_);
  kept_.insert(kept_.end(), std::make_move_iterator(looked_at.begin()),
               std::make_move_iterator(first_done));
  any_.store(!kept_.empty(), std::memory_order_relaxed);
}

}  // namespace memlease::internal
