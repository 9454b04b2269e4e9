// What a client sends on a gated connection, and what is answered, in pieces: how the bytes are
// split changes nothing, what is counted stays within its limits, and all of it is given back.
#include "server/gate/frame_meter.h"
#include "tests/fuzz/fuzz.h"

using memlease::server::Account;
using memlease::server::AccountLimits;
using memlease::server::Allowance;
using memlease::server::FrameLimits;
using memlease::server::FrameMeter;
using memlease::server::Resource;
using memlease::testing::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr FrameLimits kLimits{.rates{.new_streams{0, 20},
                                       .resets{0, 5},
                                       .pings{0, 5},
                                       .settings{0, 5},
                                       .window_updates{0, 5},
                                       .other_frames{0, 20}},
                                .open_streams = 8,
                                .bytes_in_flight = 4096};
  memlease::testing::Input input(data, size);
  const FrameMeter::Clock::time_point now{std::chrono::hours(1)};
  Allowance of_uid(kLimits.rates);
  Allowance of_uid_split(kLimits.rates);
  const AccountLimits no_limits({}, "quota_", "host");
  Account account(1000, no_limits);
  Account account_split(1000, no_limits);
  {
    FrameMeter whole(kLimits, of_uid, account);
    FrameMeter split(kLimits, of_uid_split, account_split);
    const auto begin = std::as_bytes(std::span(FrameMeter::kPreface));
    require(!whole.from_client(begin, now) && !split.from_client(begin, now), "HTTP/2 may begin");
    while (!input.empty()) {
      const auto kind = input.take<std::uint8_t>();  // whose bytes, and how many
      const auto bytes = std::as_bytes(input.take_bytes(kind >> 1U));
      if ((kind & 1U) != 0) {
        whole.from_server(bytes);
        for (const std::byte& byte : bytes) split.from_server({&byte, 1});
      } else {
        const auto excess = whole.from_client(bytes, now);
        std::optional<memlease::server::Excess> of_split;
        for (const std::byte& byte : bytes) {
          if (!of_split) of_split = split.from_client({&byte, 1}, now);
        }
        require(excess == of_split, "bytes are measured alike however they are split");
        if (excess) break;
      }
      require(whole.open_streams() == split.open_streams(), "so are streams");
      require(whole.open_streams() <= kLimits.open_streams, "streams stay within their limit");
      require(account.used(Resource::kRequests) == whole.open_streams(),
              "the uid has the same streams");
      require(account.used(Resource::kRequestBytes) <= kLimits.bytes_in_flight,
              "data stays within its limit");
    }
  }
  require(account.used(Resource::kRequests) == 0 && account.used(Resource::kRequestBytes) == 0,
          "all is given back");
  return 0;
}
