// What a service manager hands to the daemon: systemd's notification protocol (sd_notify(3)) and
// socket activation (sd_listen_fds(3)), as far as they are variables and descriptors.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/unique_fd.h"

namespace memlease::server {

// A listening socket that somebody else has made.
struct PassedSocket {
  wire::UniqueFd fd;
  std::string name;  // FileDescriptorName= of its unit, for people; "" if it has none
};

struct ServiceEnvironment {
  std::string notify_socket;              // NOTIFY_SOCKET; "" if nobody listens
  std::chrono::microseconds watchdog{0};  // WATCHDOG_USEC; 0 = none, or not for this process
  std::vector<PassedSocket> sockets;  // LISTEN_FDS, close-on-exec; empty if not for this process

  // Takes the variables out of the environment, so that no child process takes them for its own.
  // kInvalidArgument if those about sockets contradict what is open. To be called before any other
  // thread starts and before anything stays open.
  static absl::StatusOr<ServiceEnvironment> take();
};

}  // namespace memlease::server
