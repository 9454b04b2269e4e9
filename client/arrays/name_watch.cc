#include "client/arrays/name_watch.h"

#include "wire/error.h"
#include "wire/futex.h"

namespace memlease::internal {

// The daemon has one such file for as long as it lives.
absl::Status NameWatch::map(wire::FileId file, WaitLimit& wait_limit) {
  if (board_ != nullptr) return absl::OkStatus();
  auto mapped = session_.mappings().get(file, wire::FileKind::kBoard,
                                        [&] { return wait_limit.check_call(); });
  if (!mapped.ok()) return mapped.status();
  board_ = *std::move(mapped);
  return absl::OkStatus();
}

absl::Status NameWatch::await_creation(const NameLook& look, WaitLimit& wait_limit) {
  if (auto status = map(look.count_at.file, wait_limit); !status.ok()) {
    // The daemon may answer the next time.
    const bool late = wire::code_of(status) == wire::ErrorCode::kTimeout;
    return late && !wait_limit.ends_with(status) ? absl::OkStatus() : status;
  }
  if (!board_->contains(look.count_at.offset, sizeof(wire::HalfWord), sizeof(wire::HalfWord))) {
    return wire::defect("the daemon counts creations outside of its page");
  }
  const auto& count =
      *reinterpret_cast<const wire::HalfWord*>(board_->data() + look.count_at.offset);
  const wire::FutexWait changed{&count, look.count};
  while (count.load() == look.count && !wait_limit.expired()) {
    wait_limit.sleep({&changed, 1});
    if (auto status = wait_limit.step(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
