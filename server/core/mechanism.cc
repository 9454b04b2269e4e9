#include "server/core/mechanism.h"

namespace memlease::server {

std::string_view name_of(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::kHugePages:
      return "huge_pages";
    case Mechanism::kEventWaits:
      return "event_waits";
    case Mechanism::kDirectory:
      return "directory";
    case Mechanism::kMemory:
      break;
  }
  return "memory";
}

std::optional<bool> ChangeWatch::look(bool degraded) {
  if (degraded == told_degraded_) return std::nullopt;
  if (degraded) {
    const std::uint64_t now_ms = clock_.monotonic_ms();
    if (told_at_ms_ && now_ms < *told_at_ms_ + kPeriodMs) return std::nullopt;
    told_at_ms_ = now_ms;
  }
  told_degraded_ = degraded;
  return degraded;
}

}  // namespace memlease::server
