// Tells when a process whose connection has ended runs another program. After exec nothing that it
// had mapped is mapped any more: as good as an exit, and the end of the connection alone does not
// show it, as a process may also close its descriptors and read on.
//
// How: by the address of its first thread's stack. The kernel draws one at each exec, and nothing
// else changes it. It stands in /proc/PID/stat, which is read without a lock of that process, for
// those who may look into the process: its own user, while it is dumpable, and CAP_SYS_PTRACE. A
// process in another PID namespace does not stand there.
// Where the kernel draws none (no address space randomisation) an exec may go unseen.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "server/loop/event_loop.h"

namespace memlease::server {

// Equal for two looks at a process that has not called exec in between.
using ProgramMark = std::uint64_t;

// Nothing where this process may not look, and for a moment in the middle of an exec.
std::optional<ProgramMark> program_of(pid_t pid);

// Looks at once, and then ever less often, down to every ten seconds. Belongs to the loop's thread.
class ProgramWatch {
 public:
  using Look = std::function<std::optional<ProgramMark>(pid_t)>;

  // `pidfd` names the process and outlives the watch; `before` is what it ran. `on_replaced` is
  // called at most once, by the loop and never from the constructor; it may destroy the watch.
  ProgramWatch(EventLoop* loop, pid_t pid, int pidfd, ProgramMark before, Look look,
               std::function<void()> on_replaced);
  ~ProgramWatch();
  ProgramWatch(const ProgramWatch&) = delete;
  ProgramWatch& operator=(const ProgramWatch&) = delete;

 private:
  void look_after(std::chrono::milliseconds pause);
  void look(std::chrono::milliseconds pause);

  EventLoop* const loop_;
  const pid_t pid_;
  const int pidfd_;
  const ProgramMark before_;
  const Look look_;
  const std::function<void()> on_replaced_;

  EventLoop::TimerId timer_;
};

}  // namespace memlease::server
