#include "server/rpc/account.h"

#include <grp.h>
#include <pwd.h>

#include <array>
#include <limits>
#include <new>
#include <vector>

namespace memlease::server {
namespace {

// As operator new does where malloc() has nothing, before it tries again.
void make_memory() {
  const std::new_handler handler = std::get_new_handler();
  if (handler == nullptr) throw std::bad_alloc();
  handler();
}

}  // namespace

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
  for (int count = 64;;) {
    const int room = count;
    identity.groups.resize(static_cast<std::size_t>(room));
    const int got = getgrouplist(found->pw_name, found->pw_gid, identity.groups.data(), &count);
    if (got >= 0) {
      identity.groups.resize(static_cast<std::size_t>(count));
      return identity;
    }
    if (count <= room) make_memory();
  }
}

}  // namespace memlease::server
