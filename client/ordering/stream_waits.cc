#include "client/ordering/stream_waits.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "client/session/fork_guard.h"
#include "wire/mutex.h"

namespace memlease::internal {
namespace {

struct Wait {
  std::uint64_t number;
  std::unique_ptr<StreamMark> behind;
};

class Waits {
 public:
  std::uint64_t add(std::unique_ptr<StreamMark> mark) {
    std::vector<Wait> over;
    const wire::MutexLock lock(mutex_);
    if (waits_.size() >= looks_at_) {
      over = take_over();
      looks_at_ = 2 * waits_.size() + kFew;
    }
    waits_.push_back({++last_, std::move(mark)});
    return last_;
  }
  std::uint64_t last() {
    const wire::MutexLock lock(mutex_);
    return last_;
  }
  StreamWaits::Over over() {
    std::vector<Wait> over;
    const wire::MutexLock lock(mutex_);
    over = take_over();
    if (waits_.empty()) return {last_, true};
    return {waits_.front().number - 1, false};
  }
  bool are_parents() const { return fork_generation_ != fork_generation(); }

 private:
  static constexpr std::size_t kFew = 8;

  // For the caller to destroy without the lock.
  std::vector<Wait> take_over() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto goes_on = [](const Wait& wait) {
      const auto complete = wait.behind->complete();
      return complete.ok() && !*complete;
    };
    const auto over = std::stable_partition(waits_.begin(), waits_.end(), goes_on);
    std::vector<Wait> taken(std::make_move_iterator(over), std::make_move_iterator(waits_.end()));
    waits_.erase(over, waits_.end());
    return taken;
  }

  const std::uint32_t fork_generation_ = fork_generation();
  wire::Mutex mutex_;
  std::vector<Wait> waits_ ABSL_GUARDED_BY(mutex_);  // by their numbers
  std::uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  // So many, for those that are over: twice as many as went on the last time.
  std::size_t looks_at_ ABSL_GUARDED_BY(mutex_) = kFew;
};

// Made with the first use, and never destroyed: streams outlive what a process ends with. A child
// of a process that has used a GPU can use none.
Waits& waits() {
  static Waits* const the_waits = new Waits;
  return *the_waits;
}

}  // namespace

std::uint64_t StreamWaits::note(Importer& importer, Stream stream) {
  auto mark = importer.mark(stream);
  return mark.ok() && !waits().are_parents() ? waits().add(*std::move(mark)) : kUnknown;
}

std::uint64_t StreamWaits::last() { return waits().are_parents() ? 0 : waits().last(); }

StreamWaits::Over StreamWaits::over() {
  return waits().are_parents() ? Over{kUnknown - 1, true} : waits().over();
}

}  // namespace memlease::internal
