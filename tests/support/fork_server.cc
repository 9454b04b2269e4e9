#include "tests/support/fork_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/support/readable.h"

namespace memlease::testing {
namespace {

template <typename T>
bool take(int from, T& value) {
  return ::read(from, &value, sizeof value) == sizeof value;
}

template <typename T>
void give(int to, const T& value) {
  if (::write(to, &value, sizeof value) != sizeof value) std::abort();
}

[[noreturn]] void work_and_exit(const ForkServer::Work& work, std::uint64_t order) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    work(order);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a forked child: %s\n", error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

[[noreturn]] void serve_forks(const ForkServer::Work& work, int orders, int answers) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (std::uint64_t order = 0; take(orders, order);) {
    const pid_t child = ::fork();
    if (child == 0) work_and_exit(work, order);
    give(answers, child);
    int status = 0;
    ::waitpid(child, &status, 0);
    give(answers, status);
  }
  ::_exit(0);
}

}  // namespace

ForkServer::ForkServer(const Work& work) {
  int orders[2];
  int answers[2];
  if (::pipe2(orders, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(orders[1]);
    ::close(answers[0]);
    serve_forks(work, orders[0], answers[1]);
  }
  ::close(orders[0]);
  ::close(answers[1]);
  orders_.reset(orders[1]);
  answers_.reset(answers[0]);
}

ForkServer::~ForkServer() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

pid_t ForkServer::start(std::uint64_t order) {
  is_busy_ = true;
  give(orders_.get(), order);
  pid_t child = 0;
  if (!take(answers_.get(), child)) std::abort();
  return child;
}

bool ForkServer::ended() const { return readable(answers_.get(), 0); }

int ForkServer::wait() {
  is_busy_ = false;
  int status = 0;
  if (!take(answers_.get(), status)) std::abort();
  return status;
}

}  // namespace memlease::testing
