#include "server/channel/process_watch.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

#ifndef SO_PEERPIDFD  // Linux 6.5; Debian 12's headers are older than the kernels it runs on
#define SO_PEERPIDFD 77
#endif

namespace memlease::server {
namespace {

absl::Status gone(pid_t pid) {
  return wire::make_error(wire::ErrorCode::kDenied,
                          fmt::format("the process that connected (pid {}) has exited", pid),
                          "Connect from the process that is to have the session, after fork.");
}

absl::Status out_of_sight() {
  utsname kernel{};
  ::uname(&kernel);
  return wire::make_error(
      wire::ErrorCode::kDenied,
      fmt::format("the client runs outside of the daemon's PID namespace, and this kernel ({}) "
                  "cannot tell the daemon when such a process exits",
                  kernel.release),
      "Use Linux 6.5 or newer, or one PID namespace for both: the host's (--pid=host, hostPID), or "
      "a pod's (shareProcessNamespace).");
}

absl::Status failed(std::string_view call, pid_t pid) {
  const bool none_free = errno == EMFILE || errno == ENFILE;
  return wire::errno_error(none_free ? wire::ErrorCode::kBusy : wire::ErrorCode::kInternal,
                           fmt::format("{} for the client of pid {}", call, pid), errno,
                           "The daemon needs Linux 5.3 or newer and free file descriptors.");
}

}  // namespace

absl::StatusOr<wire::UniqueFd> pidfd_of_peer(int socket, pid_t pid, PidfdWay way) {
  wire::UniqueFd pidfd;
  if (way == PidfdWay::kBest) {
    int fd = -1;
    socklen_t size = sizeof(fd);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) {
      pidfd.reset(fd);
    } else if (errno == EINVAL || errno == ESRCH) {  // which of them depends on the kernel
      return gone(pid);
    } else if (errno != ENOPROTOOPT) {
      return failed("SO_PEERPIDFD", pid);
    }
  }
  if (!pidfd && pid == 0) return out_of_sight();
  if (!pidfd) {
    // glibc 2.36 declares pidfd_open() as a C++ function.
    pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd && (errno == ESRCH || errno == EINVAL)) return gone(pid);
    if (!pidfd) return failed("pidfd_open", pid);
  }
  // Some kernels hand out the pidfd of a process that has been reaped.
  if (has_exited(pidfd.get())) return gone(pid);
  return pidfd;
}

// Since 6.9 each process has an inode number of its own for its pidfds, which is not used again.
// Before, all pidfds share one inode.
bool is_same_process(int pidfd, int other) {
  struct stat one{};
  struct stat two{};
  return ::fstat(pidfd, &one) == 0 && ::fstat(other, &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

bool has_exited(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

absl::StatusOr<ProcessWatch> ProcessWatch::start(EventLoop* loop, wire::UniqueFd pidfd,
                                                 std::function<void()> on_exit,
                                                 std::optional<std::uint32_t> user) {
  const int fd = pidfd.get();
  ProcessWatch started(loop, std::move(pidfd));
  // Readable for ever once the process has exited, hence removed at the first event.
  auto added = loop->add(
      fd, EPOLLIN,
      [loop, fd, on_exit = std::move(on_exit)](auto) {
        loop->remove(fd);
        on_exit();
      },
      user);
  if (!added.ok()) return added;
  return started;
}

ProcessWatch::~ProcessWatch() {
  if (pidfd_) loop_->remove(pidfd_.get());
}

}  // namespace memlease::server
