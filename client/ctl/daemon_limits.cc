#include "client/ctl/daemon_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "client/ctl/cell.h"
#include "fmt/format.h"

namespace memlease::ctl {
namespace {

// What a session may cost the daemon: its attach connection, pidfd, control connection (and its
// copy in epoll), and an extent of its pages or two.
constexpr std::uint64_t kFilesPerSession = 6;
constexpr std::uint64_t kFilesAtLeast = 256;

// A limit in the file of a control group: a number, or "max".
std::optional<std::uint64_t> read_limit(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  // Version 1 writes "no limit" as a number near 2^63.
  if (!(file >> bytes) || bytes > std::uint64_t{1} << 60) return std::nullopt;
  return bytes;
}

struct MemoryCeiling {
  std::uint64_t bytes;
  std::string what;
};

void lower(MemoryCeiling& ceiling, const std::string& file) {
  const auto limit = read_limit(file);
  if (limit && *limit < ceiling.bytes) ceiling = {*limit, file};
}

// The lowest limit of the groups that the process is in, from its own up to the root.
MemoryCeiling ceiling_of(pid_t pid) {
  MemoryCeiling ceiling{static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
                        "the machine's memory"};
  // In a container without the host's view of the groups, these are its own.
  lower(ceiling, "/sys/fs/cgroup/memory.max");
  lower(ceiling, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
  std::ifstream groups(fmt::format("/proc/{}/cgroup", pid));
  for (std::string line; std::getline(groups, line);) {
    const bool unified = line.starts_with("0::/");
    if (!unified && line.find(":memory:/") == std::string::npos) continue;
    std::string group = line.substr(line.find('/'));
    while (group.size() > 1) {
      lower(ceiling, unified ? "/sys/fs/cgroup" + group + "/memory.max"
                             : "/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes");
      group.resize(group.rfind('/'));
    }
  }
  return ceiling;
}

std::optional<std::uint64_t> open_files_of(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", pid), error);
  if (error) return std::nullopt;
  return static_cast<std::uint64_t>(std::distance(begin(files), end(files)));
}

}  // namespace

Check check_daemon_files(pid_t pid, std::uint64_t sessions) {
  rlimit limit{};
  const auto open = open_files_of(pid);
  if (!open || ::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) != 0) {
    return {"daemon_files", Verdict::kNote, "only the daemon's own user may look at its open files",
            ""};
  }
  const std::uint64_t wanted = std::max(kFilesAtLeast, *open + sessions * kFilesPerSession);
  const std::string shown =
      fmt::format("the daemon has {} files open for {} sessions; its limit is {}", *open, sessions,
                  limit.rlim_cur);
  if (limit.rlim_cur >= wanted) return {"daemon_files", Verdict::kOk, shown, ""};
  return {"daemon_files", Verdict::kWarning, shown,
          fmt::format("Start it with at least {}: ulimit -n {}, or LimitNOFILE= in its unit.",
                      wanted, std::max<std::uint64_t>(4096, wanted))};
}

Check check_memory_limit(pid_t pid, const v1::StatusReply& status) {
  const MemoryCeiling ceiling = ceiling_of(pid);
  const std::string there = fmt::format("{} ({})", human_bytes(ceiling.bytes), ceiling.what);
  const std::string remedy =
      fmt::format("Start it with --memory-limit-bytes={}MiB or less.", (ceiling.bytes >> 20) / 2);
  if (status.memory_limit_bytes() == 0) {
    return {
        "memory_limit", Verdict::kWarning,
        fmt::format("the daemon has no limit; there are {}, beyond which the kernel kills", there),
        remedy};
  }
  const std::string shown = fmt::format("the daemon takes at most {} of {}",
                                        human_bytes(status.memory_limit_bytes()), there);
  if (status.memory_limit_bytes() > ceiling.bytes) {
    return {"memory_limit", Verdict::kWarning,
            shown + ": the kernel kills before the daemon refuses", remedy};
  }
  return {"memory_limit", Verdict::kOk, shown, ""};
}

}  // namespace memlease::ctl
