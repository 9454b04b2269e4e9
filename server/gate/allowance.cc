#include "server/gate/allowance.h"

#include <algorithm>

namespace memlease::server {

void TokenBucket::refill(Clock::time_point now) {
  if (now < refilled_) return;  // it is another caller's, who looked earlier
  const std::chrono::duration<double> passed = now - refilled_;
  tokens_ = std::min(rate_.burst, tokens_ + (passed.count() * rate_.per_second));
  refilled_ = now;
}

bool TokenBucket::take(Clock::time_point now, std::size_t tokens) {
  refill(now);
  const auto wanted = static_cast<double>(tokens);
  if (tokens_ < wanted) return false;
  tokens_ -= wanted;
  return true;
}

void TokenBucket::take_anyway(Clock::time_point now) {
  refill(now);
  tokens_ = std::max(-rate_.burst, tokens_ - 1);
}

bool TokenBucket::in_debt(Clock::time_point now) {
  refill(now);
  return tokens_ < 0;
}

Allowance::Allowance(const FrameRates& rates)
    : new_streams_(rates.new_streams),
      resets_(rates.resets),
      pings_(rates.pings),
      settings_(rates.settings),
      window_updates_(rates.window_updates),
      other_frames_(rates.other_frames),
      header_bytes_(rates.header_bytes) {}

TokenBucket& Allowance::bucket_of(Excess kind) {
  switch (kind) {
    case Excess::kNewStreams:
      return new_streams_;
    case Excess::kResets:
      return resets_;
    case Excess::kPings:
      return pings_;
    case Excess::kSettings:
      return settings_;
    case Excess::kWindowUpdates:
      return window_updates_;
    case Excess::kHeaderBytes:
      return header_bytes_;
    default:
      return other_frames_;
  }
}

std::optional<Excess> Allowance::take(Excess kind, Clock::time_point now, std::size_t tokens) {
  if (bucket_of(kind).take(now, tokens)) return std::nullopt;
  return kind;
}

std::optional<Excess> Allowance::open_stream(Clock::time_point now) {
  if (resets_.in_debt(now)) return Excess::kResets;
  return take(Excess::kNewStreams, now);
}

}  // namespace memlease::server
