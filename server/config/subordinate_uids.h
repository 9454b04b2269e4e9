// /etc/subuid: the uids beyond theirs that users may give to processes of their containers, as
// newuidmap(1) allows it.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "server/core/payers.h"

namespace memlease::server {

// By lines "user:first:count", where a user is a name or a uid. Lines that are no such, and users
// that the system does not know, count for nothing: newuidmap does not heed them either.
std::vector<SubordinateUids> subordinate_uids(std::istream& file);
// None where there is no such file.
std::vector<SubordinateUids> read_subordinate_uids(const std::string& path = "/etc/subuid");

}  // namespace memlease::server
