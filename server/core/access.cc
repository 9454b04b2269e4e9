#include "server/core/access.h"

#include <algorithm>

namespace memlease::server {
namespace {

std::uint32_t bits_for(const PeerIdentity& peer, const AccessDomain& domain) {
  if (peer.uid == 0) return 06;
  if (peer.uid == domain.uid) return (domain.mode >> 6) & 06;
  const bool in_group = peer.gid == domain.gid || std::find(peer.groups.begin(), peer.groups.end(),
                                                            domain.gid) != peer.groups.end();
  return in_group ? (domain.mode >> 3) & 06 : domain.mode & 06;
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
