// Users as the system's account database knows them: for calls that come without a session, hence
// without a process whose groups could be looked at.
#pragma once

#include "server/core/session_host.h"

namespace memlease::server {

// The uid with its groups; in none if it has no account. May take as long as the database takes.
PeerIdentity account_of(uid_t uid);

}  // namespace memlease::server
