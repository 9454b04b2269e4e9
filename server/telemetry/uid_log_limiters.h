// A LogLimiter for each uid, so that one uid's flood of events hides no other's. Bounded: `most`
// uids have one of their own, and those beyond share one. Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <unordered_map>

#include "server/telemetry/log.h"
#include "wire/mutex.h"

namespace memlease::server {

class UidLogLimiters {
 public:
  using Clock = LogLimiter::Clock;
  // As LogLimiter's, for each uid that `payer_of` gives: thread-safe, calls nothing.
  UidLogLimiters(
      std::uint32_t burst, std::chrono::milliseconds period,
      std::function<uid_t(uid_t uid)> payer_of = [](uid_t uid) { return uid; },
      std::size_t most = 1024);

  // The uid's limiter. Never null. When `most` uids have one, those whose last event is a period
  // old lose theirs; how many of their events were held back is then not logged.
  std::shared_ptr<LogLimiter> of(uid_t uid, Clock::time_point now = Clock::now())
      ABSL_LOCKS_EXCLUDED(mutex_);
  // How many lines the uid has caused in its running period; and how many each may, 0 = no limit.
  std::uint32_t lines_of(uid_t uid, Clock::time_point now = Clock::now())
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::uint32_t limit() const {
    return burst_ == std::numeric_limits<std::uint32_t>::max() ? 0 : burst_;
  }

 private:
  struct Entry {
    std::shared_ptr<LogLimiter> limiter;
    Clock::time_point last_event;
  };

  const std::uint32_t burst_;
  const std::chrono::milliseconds period_;
  const std::function<uid_t(uid_t uid)> payer_of_;
  const std::size_t most_;
  const std::shared_ptr<LogLimiter> shared_;  // of the uids beyond

  wire::Mutex mutex_;
  std::unordered_map<uid_t, Entry> by_uid_ ABSL_GUARDED_BY(mutex_);
  Clock::time_point swept_ ABSL_GUARDED_BY(mutex_);  // when places were last freed
};

}  // namespace memlease::server
