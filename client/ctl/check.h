// What `memleasectl doctor` found out about one thing, and the probes that find it out. Each probe
// tries the thing itself; none deduces it from a version number.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/connection.h"

namespace memlease::ctl {

enum class Verdict {
  kOk,
  kNote,     // works, in a way that is good to know
  kWarning,  // works, and may not do so for long
  kFailure,
};

struct Check {
  std::string name;  // stable: a key for scripts
  Verdict verdict = Verdict::kOk;
  std::string reason;  // what the probe saw
  std::string remedy;  // what to do about it; empty if nothing
};

// Directory, sockets, lock, version, isolation and limits of the daemon, and its books where they
// are to be verified. After a failure of `directory` or `control_socket` the others, which need
// them, are missing.
std::vector<Check> probe_daemon(const Options& options);

// What this machine and this process allow, without the daemon: host_probes.cc, memory_probes.cc,
// gpu_probes.cc.
Check probe_memfd();
Check probe_read_only();
Check probe_huge_pages();
Check probe_futex_waitv();
Check probe_pidfd();
Check probe_peer_pidfd();
Check probe_open_files();
Check probe_gpu();
// An array of the daemon's on each GPU. From then on the daemon has a context there.
Check probe_gpu_sharing(const Options& options);

}  // namespace memlease::ctl
