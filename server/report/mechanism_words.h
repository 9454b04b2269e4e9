// What people are told of a mechanism that the daemon does without from now on, or has again. Pure.
#pragma once

#include <string>
#include <vector>

#include "server/core/mechanism.h"

namespace memlease::server {

MechanismChange huge_pages_change(bool degraded);
MechanismChange event_waits_change(bool degraded);
MechanismChange memory_change(bool degraded);
// One for each file that has gone since `before`; if none is gone any more, one that says so.
std::vector<MechanismChange> directory_changes(const std::vector<std::string>& before,
                                               const std::vector<std::string>& lost);

}  // namespace memlease::server
