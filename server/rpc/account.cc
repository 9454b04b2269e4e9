#include "server/rpc/account.h"

#include <grp.h>
#include <pwd.h>

#include <array>
#include <limits>
#include <vector>

namespace memlease::server {

PeerIdentity account_of(uid_t uid) {
  PeerIdentity identity;
  identity.uid = uid;
  identity.gid = std::numeric_limits<gid_t>::max();  // nobody's
  std::array<char, 4096> text{};
  passwd account{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &account, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return identity;
  }
  identity.gid = found->pw_gid;
  int count = 64;
  identity.groups.resize(static_cast<std::size_t>(count));
  while (getgrouplist(found->pw_name, found->pw_gid, identity.groups.data(), &count) < 0) {
    identity.groups.resize(static_cast<std::size_t>(count));
  }
  identity.groups.resize(static_cast<std::size_t>(count));
  return identity;
}

}  // namespace memlease::server
