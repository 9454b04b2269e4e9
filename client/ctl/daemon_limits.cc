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
#include "wire/memory_ceiling.h"

namespace memlease::ctl {
namespace {

// What a session may cost the daemon: its attach connection, pidfd, control connection (and its
// copy in epoll), and a session page or two.
constexpr std::uint64_t kFilesPerSession = 6;
constexpr std::uint64_t kFilesAtLeast = 256;

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
    return {"daemon_files", Verdict::kNote, "only root may look at its open files", ""};
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
  const wire::MemoryBound ceiling = wire::memory_ceiling(pid);
  const std::string there = fmt::format("{} ({})", human_bytes(ceiling.bytes), ceiling.what);
  const std::string remedy =
      fmt::format("Start it with --memory-limit-bytes={}MiB or less.", (ceiling.bytes >> 20) / 2);
  if (status.memory_limit_bytes() == 0) {
    return {"memory_limit", Verdict::kWarning,
            fmt::format("the daemon has no limit; there are {}", there), remedy};
  }
  const std::string shown = fmt::format("the daemon takes at most {} of {}",
                                        human_bytes(status.memory_limit_bytes()), there);
  if (status.memory_limit_bytes() > ceiling.bytes) {
    return {"memory_limit", Verdict::kWarning, shown + ": it will have to refuse before its limit",
            remedy};
  }
  const wire::MemoryBound room = wire::memory_room(pid);
  if (status.memory_limit_bytes() > status.memory_bytes() + room.bytes) {
    return {"memory_limit", Verdict::kNote,
            fmt::format("{}; it has {}, and there is room for {} more now ({})", shown,
                        human_bytes(status.memory_bytes()), human_bytes(room.bytes), room.what),
            ""};
  }
  return {"memory_limit", Verdict::kOk, shown, ""};
}

}  // namespace memlease::ctl
