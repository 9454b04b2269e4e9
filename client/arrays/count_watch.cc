#include "client/arrays/count_watch.h"

#include <vector>

#include "wire/error.h"

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

const wire::HalfWord& CountWatch::count_at(const CountAt& known) const {
  return *reinterpret_cast<const wire::HalfWord*>(board_->data() + known.at.offset);
}

bool CountWatch::has_changed(const CountAt& known) const {
  return board_ != nullptr && count_at(known).load() != known.count;
}

absl::Status CountWatch::await_change(Session& session, const CountAt& known, WaitLimit& wait_limit,
                                      std::chrono::nanoseconds longest,
                                      std::span<const wire::FutexWait> others) {
  if (auto status = map(session, known.at.file, wait_limit); !status.ok()) {
    // The daemon may answer the next time.
    const bool late = wire::code_of(status) == wire::ErrorCode::kTimeout;
    return late && !wait_limit.ends_with(status) ? absl::OkStatus() : status;
  }
  if (!board_->contains(known.at.offset, sizeof(wire::HalfWord), sizeof(wire::HalfWord))) {
    return wire::defect("the daemon counts outside of its page");
  }
  using Clock = std::chrono::steady_clock;
  std::vector<wire::FutexWait> words{{&count_at(known), known.count}};
  words.insert(words.end(), others.begin(), others.end());
  const auto begin = Clock::now();
  const auto left = [&] {
    return longest == kForever ? longest : longest - (Clock::now() - begin);
  };
  while (are_as_expected(words) && !wait_limit.expired() && left().count() > 0) {
    wait_limit.sleep(words, left());
    if (auto status = wait_limit.step(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
