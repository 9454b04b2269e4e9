// Where metrics are served, as the setting `metrics` says it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace memlease::server {

struct MetricsAddress {
  enum class Kind : std::uint8_t {
    kOff,
    kUnix,  // metrics.sock in the daemon's directory
    kIpv4,  // 127.0.0.1
    kIpv6,  // ::1
  };
  Kind kind = Kind::kOff;
  std::uint16_t port = 0;  // 0: any that is free
};

// "off", "unix", "127.0.0.1:PORT", "[::1]:PORT". None for anything else: there is no
// authentication, so no other machine is served.
std::optional<MetricsAddress> parse_metrics_address(std::string_view text);

}  // namespace memlease::server
