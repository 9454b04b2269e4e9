#include "server/config/metrics_address.h"

#include "server/config/to_number.h"

namespace memlease::server {
namespace {

using Kind = MetricsAddress::Kind;

std::optional<MetricsAddress> with_port(Kind kind, std::string_view text) {
  const auto port = to_number<decltype(MetricsAddress::port)>(text);
  if (!port) return std::nullopt;
  return MetricsAddress{kind, *port};
}

}  // namespace

std::optional<MetricsAddress> parse_metrics_address(std::string_view text) {
  constexpr std::string_view kIpv4 = "127.0.0.1:";
  constexpr std::string_view kIpv6 = "[::1]:";
  if (text == "off") return MetricsAddress{Kind::kOff};
  if (text == "unix") return MetricsAddress{Kind::kUnix};
  if (text.starts_with(kIpv4)) return with_port(Kind::kIpv4, text.substr(kIpv4.size()));
  if (text.starts_with(kIpv6)) return with_port(Kind::kIpv6, text.substr(kIpv6.size()));
  return std::nullopt;
}

}  // namespace memlease::server
