#include "server/channel/peer_identity.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

// As the first user namespace does. A map is written once.
bool maps_all_users() {
  std::uint64_t inside = 1, outside = 0, count = 0;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  return inside == 0 && outside == 0 && count == std::numeric_limits<std::uint32_t>::max();
}

// True where a uid may stand for any that this process's user namespace has no number for. Where it
// maps all of them, 65534 is just the user "nobody".
bool is_unmapped(uid_t uid) {
  static std::atomic<bool> maps_all = false;  // once it does, for good
  if (!maps_all) maps_all = maps_all_users();
  if (maps_all) return false;
  std::uint64_t overflow = 65534;
  std::ifstream("/proc/sys/kernel/overflowuid") >> overflow;
  return uid == overflow;
}

absl::StatusOr<std::vector<gid_t>> groups_of_peer(int socket) {
  std::vector<gid_t> groups(32);
  while (true) {
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const bool fits = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0;
    if (!fits && errno != ERANGE) {
      return wire::errno_error(wire::ErrorCode::kInternal, "SO_PEERGROUPS", errno,
                               "The daemon needs Linux 4.13 or newer.");
    }
    groups.resize(size / sizeof(gid_t));
    if (fits) return groups;
  }
}

}  // namespace

absl::StatusOr<PeerIdentity> identify_peer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return wire::errno_error(wire::ErrorCode::kInternal, "SO_PEERCRED", errno);
  }
  if (is_unmapped(credentials.uid)) {
    return wire::make_error(wire::ErrorCode::kDenied,
                            fmt::format("the client's user has no number in the daemon's user "
                                        "namespace (the kernel says {})",
                                        credentials.uid),
                            "Run memleased in the host's user namespace, or in its clients'.");
  }
  auto groups = groups_of_peer(socket);
  if (!groups.ok()) return groups.status();
  return PeerIdentity{credentials.pid, credentials.uid, credentials.gid, *std::move(groups), ""};
}

bool proc_shows_peers() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self", error) == std::to_string(::getpid());
}

}  // namespace memlease::server
