// What the log says of events: one line each, bounded for each user and kind, so that nobody fills
// the log by what he can repeat. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "server/core/history.h"
#include "server/telemetry/log.h"
#include "server/telemetry/uid_log_limiters.h"

namespace memlease::server {

class HistoryLog {
 public:
  // Both outlive this. `by_uid`: what each user may cause; a process that connects in a loop, or
  // exits with all its arrays, leaves a line each time.
  HistoryLog(Log& log, UidLogLimiters& by_uid);

  void write(const HistoryEvent& event);
  // A line about a session that is no event: it comes or goes as it should. Half of the user's
  // lines are left for events.
  void write_session(uid_t uid, std::string_view text, LogFields fields);

 private:
  Log& log_;
  LogLimiter slots_;
  UidLogLimiters& by_uid_;
};

}  // namespace memlease::server
