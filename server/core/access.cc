#include "server/core/access.h"

#include <algorithm>

namespace memlease::server {

bool is_in_group(const PeerIdentity& peer, gid_t group) {
  return peer.gid == group ||
         std::find(peer.groups.begin(), peer.groups.end(), group) != peer.groups.end();
}

namespace {

std::uint32_t bits_for(const PeerIdentity& peer, const AccessDomain& domain) {
  if (peer.uid == 0) return 06;
  if (peer.uid == domain.uid) return (domain.mode >> 6) & 06;
  return is_in_group(peer, domain.gid) ? (domain.mode >> 3) & 06 : domain.mode & 06;
}

}  // namespace

bool may_read(const PeerIdentity& peer, const AccessDomain& domain) {
  return (bits_for(peer, domain) & 04) != 0;
}

// Writing needs reading: a writer maps the same pages.
bool may_write(const PeerIdentity& peer, const AccessDomain& domain) {
  return (bits_for(peer, domain) & 06) == 06;
}

}  // namespace memlease::server
