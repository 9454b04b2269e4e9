// Probes of what the system allows the daemon's process, against what the daemon counts on.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "client/ctl/check.h"
#include "memlease/v1/admin.pb.h"

namespace memlease::ctl {

// Open files: used now, and as many again as its sessions would need if they doubled.
Check check_daemon_files(pid_t pid, std::uint64_t sessions);
// Its memory limit against those of its control groups and the machine's memory, and against what
// these have left.
Check check_memory_limit(pid_t pid, const v1::StatusReply& status);

}  // namespace memlease::ctl
