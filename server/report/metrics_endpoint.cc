#include "server/report/metrics_endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/config/metrics_address.h"
#include "server/scrape/loopback.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

using Kind = MetricsAddress::Kind;

// Whoever may connect to the daemon: sockets that were passed have the mode that their maker gave
// them.
mode_t mode_of_socket(const Config& config, const Directory& directory) {
  const std::string path = fmt::format("{}/{}", directory.path(), wire::kControlSocket);
  struct stat control{};
  const bool has_other = directory.sockets_passed() && ::stat(path.c_str(), &control) == 0;
  return has_other ? control.st_mode & 0666U : config.socket_mode;
}

absl::StatusOr<wire::UniqueFd> listen(const MetricsAddress& address, const Config& config,
                                      Directory& directory) {
  if (address.kind == Kind::kUnix) {
    return directory.listen(wire::kMetricsSocket, SOCK_STREAM, mode_of_socket(config, directory));
  }
  return listen_on_loopback(address.kind == Kind::kIpv4 ? Loopback::kIpv4 : Loopback::kIpv6,
                            address.port);
}

absl::StatusOr<std::unique_ptr<HttpEndpoint>> start(const MetricsAddress& address,
                                                    const Config& config, Directory& directory,
                                                    EventLoop& loop, Log& log,
                                                    HttpEndpoint::Page page) {
  auto listener = listen(address, config, directory);
  if (!listener.ok()) return listener.status();
  const std::string at = address.kind == Kind::kUnix
                             ? fmt::format("{}/{}", directory.path(), wire::kMetricsSocket)
                             : address_of(*listener);
  auto endpoint = HttpEndpoint::start(loop, *std::move(listener), std::move(page));
  if (endpoint.ok()) log.info("metrics served", {{"address", at}});
  return endpoint;
}

}  // namespace

std::unique_ptr<HttpEndpoint> serve_metrics(const Config& config, Directory& directory,
                                            EventLoop& loop, Log& log, HttpEndpoint::Page page) {
  const auto address = parse_metrics_address(config.metrics);
  if (!address || address->kind == Kind::kOff) return nullptr;
  auto endpoint = start(*address, config, directory, loop, log, std::move(page));
  if (endpoint.ok()) return *std::move(endpoint);
  log.error("metrics are not served", {{"reason", wire::message_of(endpoint.status())},
                                       {"hint", wire::hint_of(endpoint.status())}});
  return nullptr;
}

}  // namespace memlease::server
