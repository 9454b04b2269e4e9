#include "server/gate/allowance.h"

#include <algorithm>

namespace memlease::server {

void TokenBucket::refill(Clock::time_point now) {
  if (now < refilled_) return;  // it is another caller's, who looked earlier
  const std::chrono::duration<double> passed = now - refilled_;
  tokens_ = std::min(rate_.burst, tokens_ + (passed.count() * rate_.per_second));
  refilled_ = now;
}

bool TokenBucket::take(Clock::time_point now) {
  refill(now);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
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

Allowance::Allowance(const FrameLimits& limits)
    : most_streams_(limits.open_streams),
      most_bytes_(limits.bytes_in_flight),
      new_streams_(limits.new_streams),
      resets_(limits.resets),
      pings_(limits.pings),
      settings_(limits.settings),
      window_updates_(limits.window_updates),
      other_frames_(limits.other_frames) {}

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
    default:
      return other_frames_;
  }
}

std::optional<Excess> Allowance::take(Excess kind, Clock::time_point now) {
  if (bucket_of(kind).take(now)) return std::nullopt;
  return kind;
}

std::optional<Excess> Allowance::open_stream(Clock::time_point now) {
  if (++open_streams_ > most_streams_) return Excess::kOpenStreams;
  if (resets_.in_debt(now)) return Excess::kResets;
  return take(Excess::kNewStreams, now);
}

std::optional<Excess> Allowance::add_bytes(std::size_t count) {
  bytes_in_flight_ += count;
  if (bytes_in_flight_ <= most_bytes_) return std::nullopt;
  return Excess::kBytesInFlight;
}

void Allowance::close_stream(std::size_t bytes) {
  --open_streams_;
  bytes_in_flight_ -= bytes;
}

void Allowance::abandon_stream(std::size_t bytes, Clock::time_point now) {
  close_stream(bytes);
  resets_.take_anyway(now);
}

}  // namespace memlease::server
