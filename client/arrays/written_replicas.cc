#include "client/arrays/written_replicas.h"

#include <utility>

#include "wire/board.h"
#include "wire/error.h"

namespace memlease::internal {

WrittenReplicas::~WrittenReplicas() {
  for (const auto& [number, replica] : open_) {
    if (!replica->forked()) replica->membership().drop_handle();
  }
}

std::shared_ptr<OpenArray> WrittenReplicas::find(std::uint32_t number) {
  const wire::MutexLock lock(mutex_);
  const auto known = open_.find(number);
  return known == open_.end() ? nullptr : known->second;
}

// False if it is the caller's to close: another thread was faster, or close() was.
bool WrittenReplicas::keep(std::uint32_t number, const std::shared_ptr<OpenArray>& opened) {
  const wire::MutexLock lock(mutex_);
  return !closed_ && open_.try_emplace(number, opened).second;
}

absl::Status WrittenReplicas::add_to(Arrays& found, HandleOwner& owner, OpenArray& home,
                                     std::uint32_t bits, InterruptCheck interrupt) {
  for (std::uint32_t number = 0; number < wire::kMaxReplicas; ++number) {
    const std::uint32_t bit = std::uint32_t{1} << number;
    if ((bits & bit) == 0) continue;
    auto replica = find(number);
    if (replica != nullptr && (!replica->usable().ok() || replica->withdrawn())) {
      if (auto status = close_all_but(bits & ~bit, interrupt); !status.ok()) return status;
      replica = nullptr;
    }
    if (replica == nullptr) {
      auto opened = owner.join_replica(home, number, interrupt);
      if (wire::code_of(opened.status()) == wire::ErrorCode::kNotFound) continue;
      if (!opened.ok()) return opened.status();
      replica = *std::move(opened);
      if (!keep(number, replica)) {
        if (auto status = replica->close_handle(interrupt); !status.ok()) return status;
      }
    }
    found.push_back(std::move(replica));
  }
  return close_all_but(bits, interrupt);
}

absl::Status WrittenReplicas::close_all_but(std::uint32_t kept, InterruptCheck interrupt) {
  Arrays gone;
  {
    const wire::MutexLock lock(mutex_);
    std::erase_if(open_, [&](auto& known) {
      if ((kept >> known.first & 1) != 0) return false;
      gone.push_back(std::move(known.second));
      return true;
    });
  }
  absl::Status interrupted;
  for (const auto& replica : gone) interrupted.Update(replica->close_handle(interrupt));
  return interrupted;
}

void WrittenReplicas::close() {
  {
    const wire::MutexLock lock(mutex_);
    closed_ = true;
  }
  close_all_but(0, kNoInterrupts).IgnoreError();
}

}  // namespace memlease::internal
