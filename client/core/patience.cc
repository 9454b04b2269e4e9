#include "client/core/patience.h"

#include <algorithm>

#include "client/core/crash_point.h"
#include "fmt/format.h"

namespace memlease::internal {

Patience::Patience(Session& session, Timeout timeout, std::chrono::nanoseconds default_timeout)
    : session_(session),
      limit_(std::max(timeout.value_or(default_timeout), std::chrono::nanoseconds::zero())) {}

bool Patience::expired() { return slice() == std::chrono::nanoseconds::zero(); }

std::chrono::nanoseconds Patience::slice() {
  const std::chrono::nanoseconds longest = looks_again() ? kSlice : std::chrono::hours(24);
  if (limit_ == kForever) return longest;
  const Clock::time_point now = Clock::now();
  if (!start_) start_ = now;
  const std::chrono::nanoseconds left = limit_ - (now - *start_);
  return std::clamp(left, std::chrono::nanoseconds::zero(), longest);
}

absl::Status Patience::step() {
  if (auto status = session_.check_interrupt(); !status.ok()) return status;
  return session_.look();
}

std::string Patience::limit_text() const {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(limit_).count());
}

}  // namespace memlease::internal
