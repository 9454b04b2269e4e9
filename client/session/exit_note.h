// Has the daemons told that this process exits by itself, by exit() or the end of main(), so that
// they do not take it for one that was killed. Nothing else of an exit is done: other threads may
// still use what they have.
#pragma once

#include <sys/types.h>

#include <functional>

namespace memlease::internal {

// Calls a function as the process that made it exits, while it lives: one that does not wait. For a
// member that comes after what the function uses.
class ExitNote {
 public:
  explicit ExitNote(std::function<void()> tell);
  ~ExitNote();
  ExitNote(const ExitNote&) = delete;
  ExitNote& operator=(const ExitNote&) = delete;

  // Nothing in a child of any kind, also one that no fork handler has seen.
  void tell() const;

 private:
  const std::function<void()> tell_;
  const pid_t process_;
};

// For who exits in another way than by exit(), as the workers of Python's multiprocessing do.
void tell_of_exit();

}  // namespace memlease::internal
