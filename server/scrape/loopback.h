// Listening on a port that this machine alone reaches. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "wire/unique_fd.h"

namespace memlease::server {

enum class Loopback : std::uint8_t { kIpv4, kIpv6 };  // 127.0.0.1, ::1

// A listening, non-blocking stream socket. port 0: any that is free. kDaemonUnavailable: somebody
// else has the port, or there is no such network.
absl::StatusOr<wire::UniqueFd> listen_on_loopback(Loopback address, std::uint16_t port);
// "127.0.0.1:9464", of such a socket.
std::string address_of(const wire::UniqueFd& listener);

}  // namespace memlease::server
