#include "server/report/mechanism_words.h"

#include <algorithm>

#include "fmt/format.h"

namespace memlease::server {

MechanismChange huge_pages_change(bool degraded) {
  if (!degraded) return {Mechanism::kHugePages, false, "segments have huge pages again", ""};
  return {Mechanism::kHugePages, true,
          "the pool has too few huge pages: a segment has ordinary ones",
          "Raise vm.nr_hugepages (see sysctl(8)), or withdraw arrays."};
}

MechanismChange event_waits_change(bool degraded) {
  if (!degraded) {
    return {Mechanism::kEventWaits, false, "GPUs wait for GPUs again: event_waits is \"stream\"",
            ""};
  }
  return {Mechanism::kEventWaits, true, "hosts wait for GPUs: event_waits is \"host\"",
          "Leave event_waits out, or make it \"stream\", and reload the daemon."};
}

MechanismChange memory_change(bool degraded) {
  if (!degraded) {
    return {Mechanism::kMemory, false, "there is memory for the daemon again: it takes on new work",
            ""};
  }
  return {
      Mechanism::kMemory, true,
      "the daemon gets no memory for anything new; what has begun goes on",
      "Raise the daemon's limit (MemoryMax=, or prlimit --pid PID --data=unlimited), or withdraw "
      "arrays."};
}

std::vector<MechanismChange> directory_changes(const std::vector<std::string>& before,
                                               const std::vector<std::string>& lost) {
  std::vector<MechanismChange> changes;
  for (const std::string& path : lost) {
    if (std::ranges::find(before, path) != before.end()) continue;
    changes.push_back({Mechanism::kDirectory, true,
                       fmt::format("{} is gone: nobody new can connect", path),
                       "Who is connected goes on. Restart the daemon when they have ended, and "
                       "find out what removed it."});
  }
  if (lost.empty() && !before.empty()) {
    changes.push_back(
        {Mechanism::kDirectory, false, "the daemon's files are in their place again", ""});
  }
  return changes;
}

}  // namespace memlease::server
