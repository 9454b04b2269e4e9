#include "server/scrape/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

constexpr int kBacklog = 16;

absl::Status failed(Loopback address, std::uint16_t port, int error_number) {
  const char* const host = address == Loopback::kIpv4 ? "127.0.0.1" : "[::1]";
  return wire::errno_error(wire::ErrorCode::kDaemonUnavailable,
                           fmt::format("listening on {}:{}", host, port), error_number,
                           error_number == EADDRINUSE
                               ? "Another program has the port: choose another one."
                               : "A service without network can serve metrics = \"unix\".");
}

}  // namespace

absl::StatusOr<wire::UniqueFd> listen_on_loopback(Loopback address, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  v6.sin6_addr = in6addr_loopback;
  const bool is_v4 = address == Loopback::kIpv4;
  const auto* const at =
      is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
  const socklen_t size = is_v4 ? sizeof v4 : sizeof v6;
  wire::UniqueFd fd(::socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // A port on which the daemon before this one has just answered is free.
  const int yes = 1;
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(fd.get(), at, size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return failed(address, port, errno);
  }
  return fd;
}

std::string address_of(const wire::UniqueFd& listener) {
  sockaddr_in6 address{};  // has room for both
  socklen_t size = sizeof address;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  // The port has the same place in both.
  const std::uint16_t port = ntohs(address.sin6_port);
  return fmt::format("{}:{}", address.sin6_family == AF_INET ? "127.0.0.1" : "[::1]", port);
}

}  // namespace memlease::server
