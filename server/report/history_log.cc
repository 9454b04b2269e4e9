#include "server/report/history_log.h"

#include <chrono>

#include "wire/ids.h"

namespace memlease::server {
namespace {

constexpr std::chrono::seconds kPeriod{10};
// Per period.
constexpr std::uint32_t kLinesOnSlots = 20;

// Without its files nobody finds the daemon any more; all else goes on in some way.
LogLevel level_of(Mechanism lacking) {
  return lacking == Mechanism::kDirectory ? LogLevel::kError : LogLevel::kWarning;
}

double seconds(std::uint64_t ms) { return static_cast<double>(ms) / 1000; }

}  // namespace

HistoryLog::HistoryLog(Log& log, UidLogLimiters& by_uid)
    : log_(log), slots_(kLinesOnSlots, kPeriod), by_uid_(by_uid) {}

void HistoryLog::write(const HistoryEvent& event) {
  const LogField session{"session", wire::to_int(event.session)};
  const LogField pid{"pid", event.pid};
  const LogField uid{"uid", event.uid};
  const LogField command{"command", event.command};
  const LogField array{"array", event.array};
  const LogField bytes{"bytes", event.bytes};
  const LogField held{"held_s", seconds(event.held_ms)};
  const LogField reason{"reason", event.reason};
  const LogField owner{"uid", event.domain ? event.domain->uid : event.uid};
  const LogField slots{"slots", event.slots};
  const LogField arrays{"arrays", event.arrays};
  const LogField mechanism{"mechanism", event.mechanism ? name_of(*event.mechanism) : ""};
  switch (event.what) {
    case Happening::kCreated:
      log_.debug("an array was created", {array, bytes, session, pid, uid});
      break;
    case Happening::kWithdrawn:
      log_.debug("an array was withdrawn", {array, bytes, held, pid, uid, reason});
      break;
    case Happening::kDied:
      log_.write(*by_uid_.of(event.uid), LogLevel::kInfo, "a process ended before it had left",
                 {session, pid, uid, command, arrays, bytes, held, reason});
      break;
    case Happening::kReclaimed:
      // What it neither held nor wrote is counted by the line of its end: there may be thousands.
      if (event.reason == kCreatedIt || event.reason == kWasItsWriter) {
        log_.debug("reclaimed from a process that has ended",
                   {session, pid, uid, command, array, bytes, held, reason});
      } else {
        log_.write(*by_uid_.of(event.uid), LogLevel::kInfo,
                   "reclaimed from a process that has ended",
                   {session, pid, uid, command, array, bytes, held, reason});
      }
      break;
    case Happening::kEvicted:
      log_.write(*by_uid_.of(event.uid), LogLevel::kInfo, "a session was evicted",
                 {session, pid, uid, command, bytes, held, reason});
      break;
    case Happening::kGrown:
      log_.write(slots_, LogLevel::kInfo, "a slot was added: readers hold the others",
                 {array, owner, {"writer_pid", event.pid}, slots, bytes});
      break;
    case Happening::kShrunk:
      log_.write(slots_, LogLevel::kInfo, "added slots were given back",
                 {array, owner, slots, bytes});
      break;
    case Happening::kDegraded:
      log_.write(level_of(*event.mechanism), event.reason, {mechanism, {"hint", event.hint}});
      break;
    case Happening::kRecovered:
      log_.info(event.reason, {mechanism});
      break;
  }
}

void HistoryLog::write_session(uid_t uid, std::string_view text, LogFields fields) {
  log_.write(*by_uid_.of(uid), LogLevel::kInfo, text, fields, LogLimiter::Kind::kUsual);
}

}  // namespace memlease::server
