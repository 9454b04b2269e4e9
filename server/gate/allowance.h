// How much of HTTP/2 somebody may use in a time: a connection has an allowance, and so has its uid,
// for all of its connections together. What is under way is the account's (server/core/account.h).
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "server/gate/excess.h"

namespace memlease::server {

// `burst` at once, and `per_second` more each second.
struct Rate {
  double per_second;
  double burst;
};

// Far above what an honest client does, so that only a flood meets them. As a connection has them.
struct FrameRates {
  Rate new_streams{20'000, 40'000};
  Rate resets{128, 512};
  Rate pings{100, 1'000};
  Rate settings{100, 1'000};
  Rate window_updates{60'000, 120'000};  // gRPC makes up to three a call
  Rate other_frames{1'000, 10'000};
  // A call has some 80. gRPC takes a second for 12,000,000, where each four are a field.
  Rate header_bytes{1'500'000, 1'000'000};
};

struct FrameLimits {
  FrameRates rates = {};
  std::size_t open_streams = 256;  // gRPC grants 64; but a client may begin before it knows that
  std::size_t bytes_in_flight = std::size_t{4} << 20;
};

// As all connections of a uid have them together: a job of some hundred processes does not meet
// these, either, when they all begin or end at once.
inline constexpr FrameRates kUidFrameRates{.new_streams{100'000, 200'000},
                                           .resets{256, 2'048},
                                           .pings{6'400, 64'000},
                                           .settings{6'400, 64'000},
                                           .window_updates{300'000, 600'000},
                                           .other_frames{10'000, 100'000},
                                           .header_bytes{3'000'000, 2'000'000}};

// Full at first. What it is asked for after the last token was taken is not granted. `now` of a
// call may be before that of another, and counts as the same time then.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  explicit TokenBucket(Rate rate) : rate_(rate), tokens_(rate.burst) {}

  // True: granted, and so many tokens less.
  bool take(Clock::time_point now, std::size_t tokens = 1);
  // What has happened cannot be refused. It leaves a debt, of no more than a burst.
  void take_anyway(Clock::time_point now);
  // Has more been taken anyway than has been refilled since?
  bool in_debt(Clock::time_point now);

 private:
  void refill(Clock::time_point now);

  const Rate rate_;
  double tokens_;
  Clock::time_point refilled_;  // epoch: never
};

// A bucket for each kind of frame. FrameMeter has that of its connection, and shares that of the
// uid, which GrpcServer keeps.
class Allowance {
 public:
  using Clock = TokenBucket::Clock;
  explicit Allowance(const FrameRates& rates);

  // Nothing, if it is granted; else `kind`, which the connection is to be cut for. `kind` is one of
  // kNewStreams to kHeaderBytes.
  std::optional<Excess> take(Excess kind, Clock::time_point now, std::size_t tokens = 1);
  // The same for a call that begins. kResets while abandon_stream() has left a debt.
  std::optional<Excess> open_stream(Clock::time_point now);
  // A stream was left open when its connection closed: that is a reset, too. Who is in debt by
  // these gets no new streams.
  void abandon_stream(Clock::time_point now) { resets_.take_anyway(now); }

 private:
  TokenBucket& bucket_of(Excess kind);

  TokenBucket new_streams_;
  TokenBucket resets_;
  TokenBucket pings_;
  TokenBucket settings_;
  TokenBucket window_updates_;
  TokenBucket other_frames_;
  TokenBucket header_bytes_;
};

}  // namespace memlease::server
