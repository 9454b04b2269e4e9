// Probes of the kernel's interfaces to processes, and of this process's limits.
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "client/ctl/check.h"
#include "fmt/format.h"
#include "wire/unique_fd.h"

#ifndef SO_PEERPIDFD  // Linux 6.5; Debian 12's headers are older
#define SO_PEERPIDFD 77
#endif

namespace memlease::ctl {
namespace {

using wire::UniqueFd;

// A client has a connection, a few shared files while it maps them, and gRPC while it calls.
constexpr rlim_t kFilesOfClient = 64;

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

Check probe_futex_waitv() {
  // A word that has changed already: where the call exists it returns at once with EAGAIN.
  std::uint32_t word = 1;
  futex_waitv waiter{.val = 0,
                     .uaddr = reinterpret_cast<std::uintptr_t>(&word),
                     .flags = FUTEX_32,
                     .__reserved = 0};
  timespec deadline{};
  const long result = ::syscall(SYS_futex_waitv, &waiter, 1, 0, &deadline, CLOCK_MONOTONIC);
  if (result == -1 && errno == EAGAIN) {
    return {"futex_waitv", Verdict::kOk, "waits for several words at once", ""};
  }
  return {"futex_waitv", Verdict::kFailure,
          fmt::format("the call answers {}", result == -1 ? std::strerror(errno) : "wrongly"),
          "Needs Linux 5.16 and a container profile (seccomp) that allows futex_waitv."};
}

Check probe_pidfd() {
  const auto failed = [](std::string_view what, std::string_view remedy) -> Check {
    return {"pidfd_open", Verdict::kFailure, std::string(what), std::string(remedy)};
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  if (child < 0) {
    return failed(fmt::format("cannot fork: {}", std::strerror(errno)), "Look at ulimit -u.");
  }
  // Until it is reaped the child keeps its pid, and its pidfd tells of its exit.
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  const int error = errno;
  pollfd entry{fd.get(), POLLIN, 0};
  const bool told = fd && ::poll(&entry, 1, 5000) == 1;
  ::waitpid(child, nullptr, 0);
  if (told) return {"pidfd_open", Verdict::kOk, "tells of a process's exit", ""};
  return failed(fd ? "the exit of a child was not told within 5 s" : std::strerror(error),
                "Needs Linux 5.3 and a container profile (seccomp) that allows pidfd_open.");
}

Check probe_peer_pidfd() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return {"so_peerpidfd", Verdict::kFailure,
            fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)),
            "Allow AF_UNIX sockets, and look at ulimit -n."};
  }
  const UniqueFd first(ends[0]);
  const UniqueFd second(ends[1]);
  int fd = -1;
  socklen_t bytes = sizeof(fd);
  if (::getsockopt(first.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) != 0) {
    return {
        "so_peerpidfd", Verdict::kNote,
        fmt::format("not available ({}): processes are identified by the handshake alone, which "
                    "is as safe; a daemon here refuses those in other PID namespaces",
                    std::strerror(errno)),
        ""};
  }
  const UniqueFd peer(fd);
  if (is_readable(peer.get())) {
    return {"so_peerpidfd", Verdict::kFailure, "says that this process has exited",
            "This kernel is not to be trusted with process identities: use another one."};
  }
  return {"so_peerpidfd", Verdict::kOk, "names the process at the other end of a socket", ""};
}

Check probe_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::vector<UniqueFd> files;
  while (files.size() < kFilesOfClient) {
    files.emplace_back(::open("/", O_PATH | O_CLOEXEC));
    if (!files.back()) break;
  }
  const std::string shown = fmt::format("limit {} of at most {}", limit.rlim_cur, limit.rlim_max);
  if (!files.back()) {
    return {"open_files", Verdict::kFailure,
            fmt::format("{}: only {} more could be opened ({})", shown, files.size() - 1,
                        std::strerror(errno)),
            "ulimit -n 1024, before starting programs that use memlease."};
  }
  return {"open_files", Verdict::kOk, fmt::format("{}; {} opened at once", shown, kFilesOfClient),
          ""};
}

}  // namespace memlease::ctl
