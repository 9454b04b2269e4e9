#include "client/arrays/count_watch.h"

#include "wire/error.h"
#include "wire/futex.h"

namespace memlease::internal {

// The daemon has one such file for as long as it lives.
absl::Status CountWatch::map(Session& session, wire::FileId file, WaitLimit& wait_limit) {
  if (board_ != nullptr) return absl::OkStatus();
  auto mapped =
      session.mappings().get(file, wire::FileKind::kBoard, [&] { return wait_limit.check_call(); });
  if (!mapped.ok()) return mapped.status();
  board_ = *std::move(mapped);
  return absl::OkStatus();
}

absl::Status CountWatch::await_change(Session& session, const CountAt& known, WaitLimit& wait_limit,
                                      std::chrono::nanoseconds longest) {
  if (auto status = map(session, known.at.file, wait_limit); !status.ok()) {
    // The daemon may answer the next time.
    const bool late = wire::code_of(status) == wire::ErrorCode::kTimeout;
    return late && !wait_limit.ends_with(status) ? absl::OkStatus() : status;
  }
  if (!board_->contains(known.at.offset, sizeof(wire::HalfWord), sizeof(wire::HalfWord))) {
    return wire::defect("the daemon counts outside of its page");
  }
  using Clock = std::chrono::steady_clock;
  const auto& count = *reinterpret_cast<const wire::HalfWord*>(board_->data() + known.at.offset);
  const wire::FutexWait changed{&count, known.count};
  const auto begin = Clock::now();
  const auto left = [&] {
    return longest == kForever ? longest : longest - (Clock::now() - begin);
  };
  while (count.load() == known.count && !wait_limit.expired() && left().count() > 0) {
    wait_limit.sleep({&changed, 1}, left());
    if (auto status = wait_limit.step(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
