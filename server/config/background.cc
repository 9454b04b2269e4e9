#include "server/config/background.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "server/config/configure.h"

namespace memlease::server {

namespace {

// All but the standard ones and `kept`.
void close_inherited_descriptors(int kept) {
  ::close_range(STDERR_FILENO + 1, static_cast<unsigned>(kept) - 1, 0);
  ::close_range(static_cast<unsigned>(kept) + 1, ~0U, 0);
}

}  // namespace

std::optional<int> Background::detach() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    std::perror("memleased: pipe2");
    return kExitRuntime;
  }
  wire::UniqueFd read_end(ends[0]);
  wire::UniqueFd write_end(ends[1]);
  // Where it is ignored, as in many servers, nothing is kept of how a child ends.
  std::signal(SIGCHLD, SIG_DFL);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("memleased: fork");
    return kExitRuntime;
  }
  if (child == 0) {
    read_end.reset();
    setsid();
    if (chdir("/") != 0) std::perror("memleased: chdir");
    close_inherited_descriptors(write_end.get());
    ready_ = std::move(write_end);
    return std::nullopt;
  }
  write_end.reset();
  char byte = 0;
  if (read(read_end.get(), &byte, 1) == 1) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitRuntime;
}

std::string Background::ready(const std::string& directory) {
  if (!ready_) return "";
  const std::string path = directory + "/memleased.log";
  const wire::UniqueFd log(open(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (!log) std::fprintf(stderr, "memleased: no log: %s: %s\n", path.c_str(), std::strerror(errno));
  const wire::UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) {
    dup2(null.get(), STDIN_FILENO);
    dup2(null.get(), STDOUT_FILENO);
    dup2(log ? log.get() : null.get(), STDERR_FILENO);
  }
  const char byte = 1;
  if (write(ready_.get(), &byte, 1) != 1) std::perror("memleased: ready");
  ready_.reset();
  return log && null ? path : "";
}

}  // namespace memlease::server
