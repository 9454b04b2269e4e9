#include "client/arrays/wait_limit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/session/lost_wakes.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

constexpr std::chrono::nanoseconds kDay = std::chrono::hours(24);
constexpr std::chrono::milliseconds kLookInterval{1};

}  // namespace

WaitLimit::WaitLimit(Session& session, std::uint64_t interrupt_check, Timeout timeout,
                     std::chrono::nanoseconds default_timeout, InterruptCheck still_open,
                     const Stop* stop)
    : session_(session),
      interrupt_check_(interrupt_check),
      limit_(
          std::max(timeout.from_now().value_or(default_timeout), std::chrono::nanoseconds::zero())),
      still_open_(still_open),
      stop_(stop) {}

bool WaitLimit::expired() {
  return limit_ != kForever && left() == std::chrono::nanoseconds::zero();
}

// A signal wakes it, and a thread that sees the connection's end. What threads close always does.
bool WaitLimit::is_told_of_ends() {
  return is_long() && !session_.interrupts_any_time(interrupt_check_) && session_.watch_end();
}

std::chrono::nanoseconds WaitLimit::slice_of(std::chrono::nanoseconds longest) {
  if (!looks_again()) longest = kDay;
  return limit_ == kForever ? longest : std::min(left(), longest);
}

void WaitLimit::sleep(std::span<const wire::FutexWait> words, std::chrono::nanoseconds longest) {
  // Closed before the count of news was taken.
  if (!std::exchange(looked_, true) && !still_open_().ok()) return;
  std::chrono::nanoseconds slice = kInterruptInterval;
  if (longest > slice && is_told_of_ends()) slice = kEventSlice;
  slice = slice_of(std::min(slice, longest));
  const std::size_t room = wire::kMaxFutexWaits - (stop_ == nullptr ? 1 : 2);
  if (words.size() > room) {
    words = words.first(room);
    slice = std::min<std::chrono::nanoseconds>(slice, kLookInterval);
  }
  std::vector<wire::FutexWait> all(words.begin(), words.end());
  all.push_back(wait_news.since(news_));
  if (stop_ != nullptr) all.push_back({&stop_->word(), 0});
  const WaitNews::Sleeper sleeper(wait_news);
  slice = lost_wakes.slice(slice, Clock::now());
  const wire::FutexResult result = wire::futex_wait(all, slice);
  lost_wakes.look(result, all, slice, Clock::now());
}

std::chrono::nanoseconds WaitLimit::left() {
  if (limit_ == kForever) return kDay;
  const Clock::time_point now = Clock::now();
  if (!start_) start_ = now;
  return std::clamp(limit_ - (now - *start_), std::chrono::nanoseconds::zero(), kDay);
}

absl::Status WaitLimit::check_interrupt() {
  if (stop_ != nullptr && stop_->requested()) {
    return wire::make_error(wire::ErrorCode::kInterrupted,
                            "a stop was requested of this call, which was waiting");
  }
  if (auto status = session_.check_interrupt(interrupt_check_); !status.ok()) return status;
  return still_open_();
}

bool WaitLimit::is_long() {
  const Clock::time_point now = Clock::now();
  if (!start_) start_ = now;
  return now - *start_ >= kInterruptInterval;
}

absl::Status WaitLimit::check_call() {
  if (auto status = check_interrupt(); !status.ok()) return status;
  if (!std::exchange(call_is_late_, expired())) return absl::OkStatus();
  return wire::make_error(wire::ErrorCode::kTimeout,
                          "the daemon did not answer within " + limit_text(),
                          "See whether memleased is stopped or overloaded: memleasectl health.");
}

bool WaitLimit::ends_with(const absl::Status& failed) {
  switch (wire::code_of(failed)) {
    case wire::ErrorCode::kInterrupted:
    case wire::ErrorCode::kClosed:
    case wire::ErrorCode::kForkedClient:
    case wire::ErrorCode::kBusy:
      return true;
    case wire::ErrorCode::kTimeout:
      return expired();
    default:
      return false;
  }
}

absl::Status WaitLimit::step() {
  news_ = wait_news.count();
  looked_ = true;
  if (auto status = check_interrupt(); !status.ok()) return status;
  return session_.look();
}

std::string WaitLimit::limit_text() const {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(limit_).count());
}

}  // namespace memlease::internal
