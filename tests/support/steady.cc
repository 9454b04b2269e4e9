#include "tests/support/steady.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace memlease::testing {
namespace {

std::uint64_t looks = 0;
std::uint64_t others = 0;
int first_other = -1;

// Runs instead of the system call.
void refuse(int /*signal*/, siginfo_t* info, void* context) {
  long result = -ENOSYS;
  if (info->si_syscall == SYS_poll) {
    ++looks;
    result = 0;  // nothing to report: the daemon lives
  } else {
    if (others++ == 0) first_other = info->si_syscall;
  }
#if defined(__x86_64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = result;
#elif defined(__aarch64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.regs[0] = static_cast<std::uint64_t>(result);
#else
#error "add this machine's register for the result of a system call"
#endif
}

void close_kernel() {
  struct sigaction action{};
  action.sa_sigaction = refuse;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  // The answer, the wait for the end of the commands, the end, and that of the handler may pass.
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, STDOUT_FILENO, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{std::size(filter), filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::perror("seccomp");
    std::abort();
  }
}

std::ptrdiff_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

}  // namespace

void run_without_kernel(std::uint64_t cycles, const std::function<void()>& cycle) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 100; ++i) cycle();
  const auto wait_limit = Clock::now() + std::chrono::seconds(10);
  while (threads() > 1) {
    if (Clock::now() > wait_limit) {
      std::printf("error Timeout %td threads do not go away\n", threads());
      std::fflush(stdout);
      _exit(1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto start = Clock::now();
  close_kernel();
  for (std::uint64_t i = 0; i < cycles; ++i) cycle();
  const std::chrono::duration<double> took = Clock::now() - start;
  char line[128];
  const int size =
      std::snprintf(line, sizeof line, "ok %ju %ju %d %.3f\n", static_cast<std::uintmax_t>(looks),
                    static_cast<std::uintmax_t>(others), first_other, took.count());
  if (write(STDOUT_FILENO, line, static_cast<std::size_t>(size)) != size) _exit(1);
  char command = 0;
  while (read(STDIN_FILENO, &command, 1) > 0) {
  }
  _exit(0);
}

}  // namespace memlease::testing
