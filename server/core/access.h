// Who may do what with an array: owner, group and mode as for a file. Pure functions.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "server/core/session_host.h"

namespace memlease::server {

// Arrays of one access domain share boards, segments and takeover pages: whoever holds a descriptor
// of one of these reaches the whole file, so nothing else may stand in it.
struct AccessDomain {
  uid_t uid = 0;
  gid_t gid = 0;
  std::uint32_t mode = 0600;
  friend bool operator==(const AccessDomain&, const AccessDomain&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const AccessDomain& d) {
    return H::combine(std::move(h), d.uid, d.gid, d.mode);
  }
};

// As the kernel decides for files: the first class that fits counts. Root may do everything.
bool may_read(const PeerIdentity& peer, const AccessDomain& domain);
bool is_in_group(const PeerIdentity& peer, gid_t group);
bool may_write(const PeerIdentity& peer, const AccessDomain& domain);

}  // namespace memlease::server
