#include "bench/process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "bench/environment.h"

namespace memlease::bench {

SharedPage& new_shared_page(unsigned meeting) {
  void* memory =
      mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "bench: mapping a shared page");
  auto* page = new (memory) SharedPage{};
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&page->barrier, &attributes, meeting);
  pthread_barrierattr_destroy(&attributes);
  return *page;
}

namespace {

[[noreturn]] void run_child(int index, const std::function<void(int)>& fn) {
  // If this program dies, its children must not wait for it at a barrier for ever.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    fn(index);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: process %d: %s\n", index, error.what());
    kill(getppid(), SIGTERM);
    _exit(1);
  }
  _exit(0);
}

}  // namespace

Processes::Processes(int count, const std::function<void(int)>& fn) {
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid == 0) run_child(i, fn);
    require(pid > 0, "bench: fork");
    pids_.push_back(pid);
  }
}

Processes::~Processes() {
  for (const pid_t pid : pids_) {
    if (wait_for_end(pid)) continue;
    std::fprintf(stderr, "bench: process %d did not end well\n", pid);
    std::exit(1);
  }
}

bool wait_for_end(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace memlease::bench
