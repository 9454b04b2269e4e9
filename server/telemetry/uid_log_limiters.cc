#include "server/telemetry/uid_log_limiters.h"

#include <utility>

namespace memlease::server {

UidLogLimiters::UidLogLimiters(std::uint32_t burst, std::chrono::milliseconds period,
                               std::function<uid_t(uid_t uid)> payer_of, std::size_t most)
    : burst_(burst),
      period_(period),
      payer_of_(std::move(payer_of)),
      most_(most),
      shared_(std::make_shared<LogLimiter>(burst, period)) {}

std::shared_ptr<LogLimiter> UidLogLimiters::of(uid_t uid, Clock::time_point now) {
  uid = payer_of_(uid);
  const wire::MutexLock lock(mutex_);
  auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) {
    // Once a period: uids that come and go do not make each event look at all.
    if (by_uid_.size() >= most_ && now - swept_ >= period_) {
      swept_ = now;
      std::erase_if(by_uid_,
                    [&](const auto& entry) { return now - entry.second.last_event >= period_; });
    }
    if (by_uid_.size() >= most_) return shared_;
    known = by_uid_.try_emplace(uid, std::make_shared<LogLimiter>(burst_, period_), now).first;
  }
  known->second.last_event = now;
  return known->second.limiter;
}

std::uint32_t UidLogLimiters::lines_of(uid_t uid, Clock::time_point now) {
  uid = payer_of_(uid);
  std::shared_ptr<LogLimiter> limiter;
  {
    const wire::MutexLock lock(mutex_);
    const auto known = by_uid_.find(uid);
    if (known == by_uid_.end()) return 0;
    limiter = known->second.limiter;
  }
  return limiter->admitted(now);
}

}  // namespace memlease::server
